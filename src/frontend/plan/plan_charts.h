// The pictures of a plan's page, as SVG texts. Pure. Each requires the parts of the plan it names.
#pragma once

#include <string>

#include "planner/search/plan.h"

namespace longhaul::frontend {

// The steps of the best layouts, one bar each, divided into parts.
std::string StepChart(const planner::search::Plan& plan);
// Bytes of the first, last, fullest and middle stage over the drawn part of the step, under the
// GPU's limit. Requires a timeline.
std::string MemoryChart(const planner::search::Plan& plan);
// The activity of each stage over time. Requires a timeline.
std::string StageChart(const planner::search::Plan& plan);
// Time and cost of the layouts that no other one beats; a point's fill is its share of memory.
std::string FrontierChart(const planner::search::Plan& plan);
// The throughput with one input changed, the largest effect at the top.
std::string InfluenceChart(const planner::search::Plan& plan);

}  // namespace longhaul::frontend
