// What a gang that lost hosts does next: the ways to continue, each with its price, cheapest first.
//
// Survivors stay where they are, and their domains cost nothing more. For each way the placement
// table (equal_tasks.h) chooses the hosts: spares or any host in the survivors' leaves, in their
// blocks, anywhere the topology rule allows, fewer replicas, or the whole gang elsewhere. The price
// is lost accelerator-seconds now plus the slowdown for the time that remains, both the caller's:
// crossing one more leaf or block costs `slowdown` parts per million of all GPUs until the end.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <vector>

#include "scheduler/gang/equal_tasks.h"

namespace longhaul::scheduler {

enum class RepairWay {
  kSpareInLeaf,
  kHostInLeaf,
  kHostInBlock,
  kHostAnywhere,
  kShrink,
  kMoveGang,
  kWait,
};

struct RepairProblem {
  std::span<const HostTasks> survivors;  // ascending by host
  int32_t lost_tasks = 0;                // at least 1
  int32_t slice = 1;                     // as EqualTasksRequest; divides lost and surviving tasks
  Tier slice_tier = kLeafTier;
  Tier required_tier = kClusterTier;  // of the whole gang, survivors included

  int32_t min_tasks = 0;    // shrinking goes no lower
  int32_t shrink_step = 1;  // tasks that leave together: a whole replica
  int32_t gpus_a_task = 1;
  int64_t remaining_s = 0;  // expected, of the job
  int64_t restart_s = 0;    // the survivors keep their state
  int64_t move_s = 0;       // everything starts elsewhere from a checkpoint
  int64_t wait_s = 0;       // until capacity returns; negative: unknown, don't offer
  std::array<int64_t, kMaxTiers> slowdown_ppm{};  // of a domain more, a tier
};

struct RepairCandidate {
  RepairWay way = RepairWay::kWait;
  int64_t cost_gpu_ms = 0;       // lost accelerator-milliseconds in all
  int32_t tasks_after = 0;       // the gang's size
  std::vector<HostTasks> added;  // the new tasks; for kMoveGang all of them
  // kShrink: survivors that leave because their replica lost a part, or because the rule asks.
  int32_t surplus_tasks = 0;
};

// All ways that are possible, ascending by cost, then in the order of RepairWay. `free` counts
// every usable host's slots, spares included; `spare` marks spares (one entry a host, or empty);
// `if_moved` is `free` with the survivors' slots given back, for kMoveGang.
std::vector<RepairCandidate> FindRepairs(const SlotTable& free, std::span<const uint8_t> spare,
                                         const SlotTable& if_moved, const RepairProblem& problem,
                                         EqualTasksSolver& solver);

}  // namespace longhaul::scheduler
