// What a plan shows around its best layout, one function a picture.
#pragma once

#include <optional>
#include <vector>

#include "planner/search/plan.h"

namespace longhaul::planner::search::internal {

std::vector<Influence> InfluencesOf(const PlanRequest& job, const Proposal& best,
                                    const PlanOptions& options);

// Nothing for DualPipe, whose schedule is not simulated, and for more than 64 stages.
std::optional<Timeline> TimelineOf(const PlanRequest& job, const Proposal& best);

// How much of the progress is the first search where others follow it.
constexpr double kShareOfFirst = 0.4;

// Searches every number of GPUs, with more and more memory left free, and keeps what nothing beats
// in time, money and memory; with a proof of all these searches where one is asked for.
void AddFrontier(const PlanOptions& options, Plan& plan);

}  // namespace longhaul::planner::search::internal
