// One job as the scheduler knows it: what it requests, what it holds and what it waits for.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <set>
#include <utility>
#include <vector>

#include "base/time.h"
#include "scheduler/job.h"
#include "scheduler/share/queue_tree.h"
#include "scheduler/state/state.h"

namespace longhaul::scheduler::internal {

using JobNumber = uint64_t;  // by submission, from 1; the owner of its tasks in the state
constexpr JobNumber kNoJob = 0;

enum class Stage : uint8_t { kAssumed, kBound, kRunning };

struct HeldTask {
  int32_t group = 0;
  int32_t rank = 0;
  TaskSlot slot = kNoTask;
  Stage stage = Stage::kAssumed;
};

// What kept a job from starting when it was last tried.
struct Block {
  enum class Kind : uint8_t { kNone, kNotTried, kLeaving, kQuota, kRoom, kReservation, kOrder };
  Kind kind = Kind::kNotTried;
  share::QuotaBlock quota;
  int32_t group = 0;      // kRoom: the group that found none
  JobNumber by = kNoJob;  // kReservation: whose; kOrder: who stops the queue
};

struct JobEntry {
  JobNumber number = kNoJob;
  // Shared by copies of the state: a request never changes, and what-if copies are many.
  std::shared_ptr<const JobRequest> request;
  std::vector<ShapeId> shapes;  // by group
  // By group: SchedulerState::ShapesOfModels. Empty where that is so for every group.
  std::vector<std::vector<ShapeId>> shapes_of_models;
  share::QueueIndex queue = share::kRootQueue;
  uint32_t line = 0;     // of jobs that fail and succeed alike
  Instant line_place{};  // in it
  Instant submitted{};
  uint64_t expedited = 0;  // by an operator, the later the higher; 0: not

  // While it has tasks.
  bool placed = false;
  uint64_t transaction = 0;
  std::optional<Instant> bind_by;  // until every task is bound
  Instant started{};
  Instant last_snapshot{};
  Instant end_noted{};  // in SchedulerState::ends
  uint64_t started_in_round = 0;
  int64_t held_priority = 0;    // against those who would stop it
  Instant protected_until{};    // from other queues' guarantees
  std::vector<HeldTask> tasks;  // by rank
  // Taken over with a group on several device models, while queues have quotas of models. It stays
  // where it is until it stops, because other places would count otherwise.
  bool mixes_models = false;
  std::vector<std::pair<int32_t, int32_t>> lost;  // (group, rank) whose node or start failed
  Instant lost_since{};                           // the first of these
  std::set<NodeIndex> refused_by;
  uint32_t refusals = 0;
  spec::SharedAmounts held;
  std::vector<std::pair<int32_t, uint8_t>> gpu_of_rank;  // by rank: task, which of its GPUs

  bool leaving =
      false;  // its last tasks, or those before a move, have not been reported as stopped
  std::vector<NodeIndex> leaving_nodes;
  Block block;
  std::vector<Instant> evictions;  // of the last day
  std::vector<Instant> moves;      // of the last day

  Duration ran{};            // before the last start
  int64_t kept_idle_ms = 0;  // accelerator time, by its reservations

  // When it would have been submitted had it waited ever since: the time that it has run counts as
  // time before its submission.
  Instant waits_since() const { return submitted + ran; }
};

// What the job counts as in the quotas. The result refers to its request.
// Amounts with which the job as a whole would start, or stop:
share::Holding WholeOf(const JobEntry& job, const spec::SharedAmounts& amounts);
// Amounts that it takes or gives up while it runs:
share::Holding PartOf(const JobEntry& job, const spec::SharedAmounts& amounts);
// All that it holds. Requires that it is placed.
share::Holding HeldBy(const JobEntry& job);

}  // namespace longhaul::scheduler::internal
