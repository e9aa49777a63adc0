// A plan as tables and sentences for a terminal. Pure; outside text loses its control characters.
#pragma once

#include <string>

#include "planner/search/plan.h"

namespace longhaul::frontend {

// The whole answer: the question, the best layouts, the best one's memory and step, the reasons
// against the others, and the proof where it was requested. Ends with a line end.
std::string PlanText(const planner::search::Plan& plan);

// One changed layout beside the layout from which it was changed.
std::string WhatIfText(const planner::search::Proposal& base,
                       const planner::search::Proposal& changed, std::string_view change);

}  // namespace longhaul::frontend
