// A plan as tables and sentences for a terminal. Pure; what others wrote is made harmless.
#pragma once

#include <string>

#include "planner/search/plan.h"

namespace longhaul::frontend {

// The whole answer: what was asked, the best layouts, the best one's memory and step, why not the
// others, and the proof where one was asked for. Ends a line.
std::string PlanText(const planner::search::Plan& plan);

// One changed layout beside the one it was changed from.
std::string WhatIfText(const planner::search::Proposal& base,
                       const planner::search::Proposal& changed, std::string_view change);

}  // namespace longhaul::frontend
