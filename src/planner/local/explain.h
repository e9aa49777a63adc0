// The reason of a plan as sentences, for PlanLocal.
#pragma once

#include <string>
#include <vector>

#include "planner/local/layout.h"

namespace longhaul::planner::local {

// Predictions that differ by less count as equal: about the cost model's error (validation/local).
constexpr double kTie = 0.10;

// "12 % slower", "as fast".
std::string Compared(double seconds, double base);

std::string ExplainCommand(const LocalPlan& plan, const spec::ResourceSpec& fixed);

// `rows` are all alternatives with their verdicts, fastest first, the chosen one among them.
std::string ExplainPlan(const LocalPlan& plan, const std::vector<Alternative>& rows,
                        const spec::JobSpec& job, const MachineFacts& facts);

}  // namespace longhaul::planner::local
