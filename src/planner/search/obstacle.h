// The reason why a search proposes nothing, and possible alternatives.
//
// Causes are checked in the order in which a user would remove them: a layout must be legal, fit
// the GPU, be one that a framework has options for, and only then meet the deadline and the budget.
// Each check is a search without the later conditions.
#pragma once

#include <string>

#include "planner/search/plan.h"

namespace longhaul::planner::search {

// Requires an outcome without a best layout that was not cancelled.
Obstacle FindObstacle(const PlanRequest& job, const Outcome& outcome, const PlanOptions& options);

std::string_view ToString(Cause cause);  // "memory", "budget", ...: a word for programs

// "The cheapest run takes 512 GPUs, 30.1 days and $2.10M (tensor=8,...)", without a full stop.
// Requires a proposal with its run.
std::string RunSentence(std::string_view which, const Proposal& proposal);

// Sentences for a person.
std::string ObstacleText(const Plan& plan);

// Whether a layout is too slow for the deadline or too expensive for the budget of the plan, with
// both figures; empty where it is neither.
std::string LimitText(const Plan& plan, const Proposal& proposal);

}  // namespace longhaul::planner::search
