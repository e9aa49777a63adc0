// What the scheduler is asked to place: a job of one or more groups of tasks.
//
// A job starts whole or not at all: every group with its minimum at least. A group's tasks are
// equal; groups differ (leader and workers, prefill and decode). Between `minimum` and `desired` a
// group grows and shrinks by whole `step`s. `required` topology is never broken, by preemption and
// repair neither; without one the fewest switches are sought all the same, so a preferred tier
// needs no word: what fits one leaf lies in one leaf. A group that is spread is the exception.
//
// A job of one group of whole GPUs may say how its ranks talk (`layout`): a rank is a GPU, and
// ranks are laid onto the chosen hosts so that the heaviest traffic crosses least
// (gang/rank_order.h). An elastic one may say what further tasks are worth (`speed_milli`).
//
// Leaves out what the job does.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/ids.h"
#include "base/status.h"
#include "base/time.h"
#include "scheduler/gang/domain_tree.h"
#include "scheduler/gang/equal_tasks.h"
#include "scheduler/state/shape.h"
#include "spec/queue/queue.h"

namespace longhaul::scheduler {

// What may be done to a running job to make room.
enum class Preemption : uint8_t {
  kNever,
  kShrink,   // it may lose tasks down to its minimum
  kSuspend,  // shrink, or stop with its state kept
  kRequeue,  // shrink, or stop and start again from its last snapshot
};

struct GroupRequest {
  std::string name = "tasks";
  Shape shape;
  int32_t minimum = 1;  // at least 1
  int32_t desired = 1;  // minimum + a whole number of steps
  int32_t step = 1;
  Tier required = kClusterTier;  // the group lies in one domain of this tier
  int32_t slice = 1;             // every so many tasks lie in one domain of slice_tier
  Tier slice_tier = kLeafTier;
  int32_t max_per_host = 0;  // so many tasks on one host at most; 0: no rule
  // Spread: the tasks lie over the domains of spread_tier as evenly as the free slots allow when
  // they are placed, and at most so many in one of them. kMaxGangTasks: as evenly, without a bound;
  // 0: the group is not spread. Only without slices and rails, and below what is required.
  int32_t max_per_domain = 0;
  Tier spread_tier = kLeafTier;
  // Every task holds the same local GPUs on its host, one task a host (gang/rails.h). Only for
  // whole GPUs on hosts of kMaxRails GPUs at most, without slices and spread.
  bool rail_aligned = false;
  // All tasks of the group are on devices of one model, any of those that the shape allows.
  bool one_model = false;
  // What the group's speed is at minimum + i steps, in thousandths of that at its minimum; empty:
  // it grows as the tasks do. Else an entry for each count from minimum to desired, none falling.
  std::vector<int32_t> speed_milli{};

  bool is_spread() const { return max_per_domain > 0; }
  friend bool operator==(const GroupRequest&, const GroupRequest&) = default;
};

// GPUs that talk: groups of `tensor` and of `pipeline` GPUs, and data groups of what is left.
// Volumes are bytes that one group moves across each of its borders in a step.
struct RankLayout {
  int32_t tensor = 1;
  int32_t pipeline = 1;
  int64_t tensor_volume = 0;
  int64_t data_volume = 0;
  int64_t pipeline_volume = 0;

  friend bool operator==(const RankLayout&, const RankLayout&) = default;
};
constexpr int64_t kMaxVolume = (int64_t{1} << 40) - 1;

struct JobRequest {
  JobId id;
  std::string queue;
  std::string owner;
  int32_t priority = 0;  // within its queue
  Preemption preemption = Preemption::kRequeue;
  bool preempts = true;  // running jobs may be stopped for it, where it has a right to that
  std::vector<GroupRequest> groups;
  Tier required = kClusterTier;       // all groups together
  std::optional<Duration> limit{};    // what the user says it will take at most
  std::optional<Instant> deadline{};  // least slack goes first within one priority
  Duration restart_cost = std::chrono::minutes(2);
  std::optional<RankLayout> layout{};  // its tensor x pipeline divides the GPUs of every count

  friend bool operator==(const JobRequest&, const JobRequest&) = default;
};

constexpr size_t kMaxGroups = 16;
constexpr int32_t kMaxPriority = 1'000'000;

// What `tasks` tasks of a shape take of the shared resources.
spec::SharedAmounts AmountsOf(const Shape& shape, int64_t tasks);

// The job's amounts with every group at its minimum.
spec::SharedAmounts MinimumAmounts(const JobRequest& request);

// Thousandths of GPUs of all groups at their desired counts.
int64_t DesiredGpuMilli(const JobRequest& request);

// The index of the group that takes most GPUs at its minimum.
int32_t LargestGroup(const JobRequest& request);

// Refuses what no cluster could mean: no group, counts out of range or order, steps and slices that
// don't divide, tiers that the network of so many tiers doesn't have, a spread over domains that
// are not below the required one. Names the job and the number.
Status CheckRequest(const JobRequest& request, Tier tiers);

}  // namespace longhaul::scheduler
