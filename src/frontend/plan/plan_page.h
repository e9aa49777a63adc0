// A plan as one self-contained HTML page: no scripts, no fonts, no other files.
//
// Pictures are inline SVG with titles for screen readers; a colour has the same meaning in all of
// them; in print, no page break cuts a picture. Every text from outside is escaped.
#pragma once

#include <string>

#include "frontend/plan/plan_now.h"
#include "planner/search/plan.h"

namespace longhaul::frontend {

// `now` is the layout in use today, where the user requested a comparison with it.
std::string PlanPage(const planner::search::Plan& plan, const RunNow* now = nullptr);

}  // namespace longhaul::frontend
