// A plan as one HTML page that needs nothing else: no scripts, no fonts, no other files.
//
// Pictures are inline SVG with titles for screen readers; colours keep their meaning in all of
// them; printed, no picture is cut by a page's end. Every text that came from outside is escaped.
#pragma once

#include <string>

#include "frontend/plan/plan_now.h"
#include "planner/search/plan.h"

namespace longhaul::frontend {

// `now` is what is run today, where it was asked about.
std::string PlanPage(const planner::search::Plan& plan, const RunNow* now = nullptr);

}  // namespace longhaul::frontend
