// What the scheduler decides. Decisions of one transaction belong together: all or none is done.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/ids.h"
#include "base/time.h"
#include "scheduler/gang/domain_tree.h"
#include "scheduler/state/state.h"

namespace longhaul::scheduler {

enum class DecisionKind : uint8_t {
  kStart,    // all tasks of a job; once the jobs in `after` have left
  kGrow,     // further tasks
  kRepair,   // tasks in the place of lost ones
  kShrink,   // these tasks stop, the others continue with ranks that are dense again
  kSuspend,  // stops with its state kept, and waits again
  kEvict,    // stops and waits again
  kUndo,     // a start that wasn't confirmed: what is bound of it is deleted, and it waits again
  kReserve,  // a waiting job is promised room in a domain from `from` on
  kReject,   // it can never start; see `reason`
  kMove,     // stops at once with its state kept, and starts again on these nodes, all of it,
             // once the jobs in `after` have left; its stop is reported like an eviction's
};

// Where one rank of a job with a layout computes: a GPU of the task of that rank.
struct GpuOfRank {
  int32_t task = 0;  // its rank among the tasks
  NodeIndex node = 0;
  uint8_t gpu = 0;  // of the node

  friend bool operator==(const GpuOfRank&, const GpuOfRank&) = default;
};

struct TaskPlacement {
  int32_t group = 0;
  int32_t rank = 0;
  NodeIndex node = 0;
  GpuMask gpus = 0;

  friend bool operator==(const TaskPlacement&, const TaskPlacement&) = default;
};

struct Decision {
  DecisionKind kind = DecisionKind::kStart;
  uint64_t transaction = 0;
  JobId job;
  std::vector<TaskPlacement> tasks;
  // kStart to kShrink, kMove, of a job with a layout: rank -> GPU, all ranks of the job; rank is
  // (pipeline index x data + data index) x tensor + tensor index.
  std::vector<GpuOfRank> ranks{};
  std::vector<JobId> after;  // stopping jobs that still hold these GPUs
  Tier tier = kClusterTier;  // kReserve: of the domain
  int32_t domain = 0;        // kReserve
  Instant from{};            // kReserve
  std::string reason;        // kShrink to kUndo, kReject: why

  friend bool operator==(const Decision&, const Decision&) = default;
};

// One line; equal decisions give equal lines.
std::string ToString(const Decision& decision);

}  // namespace longhaul::scheduler
