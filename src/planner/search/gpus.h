// The GPU counts and the objective of a search: time, money, or one within a limit of the other.
//
// Counts are whole islands (and whole hosts): powers of two times 1, 3, 5 or 7 of them, and the
// ends of the range; below one island the powers of two that divide it. For a given count the run's
// days and dollars are proportional to the step (run.h), so a count needs two figures: the weight
// of a second of step, and the longest step that meets deadline and budget. So bounds in seconds
// serve every objective. Leaves out the price of idle GPUs.
#pragma once

#include <cstdint>
#include <limits>
#include <optional>
#include <span>
#include <vector>

#include "base/status.h"
#include "planner/run.h"

namespace longhaul::planner::search {

struct PlanRequest;

enum class Objective { kTime, kCost };

struct Goal {
  Objective objective = Objective::kTime;
  RunFacts run;  // without tokens: of one step, failures left out
  std::optional<double> deadline_days{};
  std::optional<double> budget_dollars{};
};

struct GpuCount {
  uint32_t devices = 1;
  double weight = 1;  // of a second of step in the objective
  double longest_step_s = std::numeric_limits<double>::infinity();
  // The days and dollars of the run per second of step; dollars are 0 where the GPU has no price.
  double days_per_step_s = 0;
  double dollars_per_step_s = 0;
};

// Ascending; of the range [low, high]. Requires 1 <= low <= high.
std::vector<uint32_t> GpuCounts(const spec::DeviceCluster& cluster, uint32_t low, uint32_t high);

// Gives the job these counts, the goal's deadline and its budget. Rejects counts that the cluster
// cannot have, a deadline or a budget without tokens, and money where the GPU has no price.
Status SetGpus(std::span<const uint32_t> counts, const Goal& goal, PlanRequest& job);

// The job's counts: only that of its cluster where none were set.
std::vector<GpuCount> CountsOf(const PlanRequest& job);

}  // namespace longhaul::planner::search
