// The events of the scheduler. Together with the times they come at, events are all its input.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "base/time.h"
#include "scheduler/decision.h"
#include "scheduler/job.h"
#include "scheduler/state/state.h"

namespace longhaul::scheduler {

struct JobSubmitted {
  JobRequest request;
};
struct JobChanged {  // of a waiting job; its place in the queue is kept
  JobRequest request;
};
// An operator has chosen another desired count for the group of a running job. Tasks beyond it
// leave at once, and the next round may add tasks. Ignored unless Scheduler::CheckScale returns OK.
struct JobScaled {
  JobId job;
  int32_t desired = 1;
  std::vector<int32_t> speed_milli{};  // as in GroupRequest
};
struct JobExpedited {  // an operator puts it before all others
  JobId job;
};
struct JobEnded {  // finished, failed for good or cancelled
  JobId job;
  bool observed = true;  // not: how long it ran says nothing about jobs like it
};
struct JobEvictionAsked {  // by an operator; it goes back into its queue
  JobId job;
};
// A job taken over as it is, from a scheduler whose cluster, queues or policy have changed or from
// an engine that had it before. Without `tasks` and `lost` it waits, at its old place. What runs
// keeps its GPUs whatever the quotas say; a task whose node or GPUs cannot be had counts as lost.
struct JobAdopted {
  JobRequest request;
  Instant submitted{};
  std::vector<TaskPlacement> tasks;               // by rank
  std::vector<std::pair<int32_t, int32_t>> lost;  // (group, rank) of tasks that have no node
  Instant started{};
  Instant last_snapshot{};
  Duration ran{};                  // before it was started the last time
  int64_t held_priority = 0;       // of what runs, against those who would stop it
  Instant protected_until{};       // of what runs: from the guarantees of other queues
  uint64_t expedited = 0;          // of what waits: by an operator, the later the higher
  std::vector<Instant> evictions;  // of the last day
  std::vector<NodeIndex> leaving;  // it is stopping, and may still be on these nodes
};
struct JobStopped {  // what was evicted, suspended or undone has left its nodes
  JobId job;
};
struct SnapshotTaken {
  JobId job;
};

// The engine's answers to a start or a growth, by transaction. No ranks: all of them.
struct TasksBound {
  JobId job;
  uint64_t transaction = 0;
  std::vector<int32_t> ranks;
};
struct TasksRunning {
  JobId job;
  uint64_t transaction = 0;
  std::vector<int32_t> ranks;
};
struct TaskRefused {
  JobId job;
  uint64_t transaction = 0;
  int32_t rank = 0;
};

struct NodeChanged {
  std::string node;
  spec::NodeCondition condition = spec::NodeCondition::kReady;
};
struct DeviceChanged {
  std::string node;
  uint32_t device = 0;
  bool healthy = true;
};
// What others than the scheduler's jobs use of a node, in all; the last event counts. More than the
// node has is accepted: then nothing is free.
struct NodeShared {
  std::string node;
  int64_t cpu_milli = 0;
  int64_t memory_mib = 0;
  std::array<int64_t, spec::kMaxCountedResources> counted{};
  int64_t devices = 0;  // whole ones; the class chooses which, among those that its jobs don't have
};
struct NodeFaulted {  // a task failed there for the node's own fault; the node continues
  std::string node;
};

// The links that join a domain of a tier to the rest of the network: gangs that cross them fail or
// crawl, and traffic inside is not affected.
struct LinkFaulted {  // its health falls; after too many faults no gang may cross it for a while
  Tier tier = kLeafTier;
  int32_t domain = 0;
};
struct LinkChanged {
  Tier tier = kLeafTier;
  int32_t domain = 0;
  bool up = true;
};

// What tasks are expected, with how often: what small jobs are placed for until enough have come.
struct MixExpected {
  std::vector<std::pair<Shape, int64_t>> tasks;
};

struct QueueLimitSet {
  std::string queue;
  spec::SharedAmounts limit;
};

using Event = std::variant<JobSubmitted, JobChanged, JobScaled, JobExpedited, JobEnded,
                           JobEvictionAsked, JobAdopted, JobStopped, SnapshotTaken, TasksBound,
                           TasksRunning, TaskRefused, NodeChanged, DeviceChanged, NodeFaulted,
                           NodeShared, QueueLimitSet, LinkFaulted, LinkChanged, MixExpected>;

// One line for a log: "submitted job-1", "node-3 is down".
std::string ToString(const Event& event);

}  // namespace longhaul::scheduler
