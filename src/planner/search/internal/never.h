// The step time, and the objective, of what cannot run: above those of all that can.
#pragma once

#include <limits>

namespace longhaul::planner::search::internal {

inline constexpr double kNever = std::numeric_limits<double>::infinity();

}  // namespace longhaul::planner::search::internal
