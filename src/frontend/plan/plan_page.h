// A plan as one HTML page that needs nothing else: no scripts, no fonts, no other files.
//
// Pictures are inline SVG with titles for screen readers; colours keep their meaning in all of
// them; printed, no picture is cut by a page's end. Every text that came from outside is escaped.
#pragma once

#include <string>

#include "planner/search/plan.h"

namespace longhaul::frontend {

std::string PlanPage(const planner::search::Plan& plan);

}  // namespace longhaul::frontend
