// Explains in sentences with numbers why a layout was not chosen.
#pragma once

#include <string>

#include "planner/search/plan.h"

namespace longhaul::planner::search {

// Sentences for a person about the layout `named` (its open choices are filled with the best ones):
// the rule it breaks, the memory by which it does not fit, the framework that lacks it, or the
// parts of the step that make it slower than the best. Never empty.
std::string WhyNot(const Plan& plan, const Fixed& named, const PlanOptions& options);

// The differences of `other` from `best`, largest first: "bubble +0.42 s, tensor collectives ...".
std::string Differences(const Proposal& best, const Proposal& other);

}  // namespace longhaul::planner::search
