// The pictures of a plan's page, as SVG texts. Pure. Requires what each names to be there.
#pragma once

#include <string>

#include "planner/search/plan.h"

namespace longhaul::frontend {

// The steps of the best layouts, one bar each, cut into parts.
std::string StepChart(const planner::search::Plan& plan);
// Bytes of the first, last, fullest and middle stage over the drawn part of the step, under the
// GPU's limit. Requires a timeline.
std::string MemoryChart(const planner::search::Plan& plan);
// What each stage does when. Requires a timeline.
std::string StageChart(const planner::search::Plan& plan);
// Time and money of what no other layout beats; the fill of a point is its share of memory.
std::string FrontierChart(const planner::search::Plan& plan);
// What throughput would be with one input changed, the largest effect on top.
std::string InfluenceChart(const planner::search::Plan& plan);

}  // namespace longhaul::frontend
