// The output of `longhaul plan` for a finished plan: tables, JSON, the page, the trace, launch
// files and answers to --what-if and --why-not.
#pragma once

#include <optional>

#include "bin/tools/plan/request_of_flags.h"
#include "frontend/plan/plan_now.h"
#include "planner/search/plan.h"

namespace longhaul::bin {

// Prints and writes what the flags request; `now` is the present configuration (--from). Returns
// the exit code.
int ShowPlan(const planner::search::Plan& plan, const std::optional<frontend::RunNow>& now,
             const PlanFlags& flags, const planner::search::PlanOptions& options);

}  // namespace longhaul::bin
