// The pictures and tables that a plan shows beside its best layout, one function each.
#pragma once

#include <optional>
#include <vector>

#include "planner/search/plan.h"

namespace longhaul::planner::search::internal {

std::vector<Influence> InfluencesOf(const PlanRequest& job, const Proposal& best,
                                    const PlanOptions& options);

// Nothing for DualPipe, which is not simulated, and for more than 64 stages.
std::optional<Timeline> TimelineOf(const PlanRequest& job, const Proposal& best);

// The share of the first search in the progress, where others follow it.
constexpr double kShareOfFirst = 0.4;

// Searches every number of GPUs, with more and more memory left free, and keeps the proposals that
// no other one beats in time, money and memory; with a proof of all these searches on request.
void AddFrontier(const PlanOptions& options, Plan& plan);

}  // namespace longhaul::planner::search::internal
