// Why a layout was not chosen, in words with numbers.
#pragma once

#include <string>

#include "planner/search/plan.h"

namespace longhaul::planner::search {

// Sentences for a person about the layout `named` (what it leaves open is filled with the best that
// completes it): the rule it breaks, what does not fit and by how much, which framework lacks it,
// or which parts of the step make it slower than the best. Never empty.
std::string WhyNot(const Plan& plan, const Fixed& named, const PlanOptions& options);

// How `other` differs from `best`, largest part first: "bubble +0.42 s, tensor collectives ...".
std::string Differences(const Proposal& best, const Proposal& other);

}  // namespace longhaul::planner::search
