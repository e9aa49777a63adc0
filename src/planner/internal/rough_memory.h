// Memory of each stage by the sums of arXiv 2205.05198: an interim until the exact ledger is in.
#pragma once

#include <span>

#include "planner/evaluation.h"

namespace longhaul::planner::internal {

// Fills the memory of every stage and the peaks of `out`, whose stages hold layers and times.
void RoughMemory(const spec::Model& model, const spec::DeviceCluster& cluster,
                 const spec::Training& training, std::span<const double> parameters,
                 Evaluation& out);

}  // namespace longhaul::planner::internal
