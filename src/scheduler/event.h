// What the scheduler is told. Together with the times they come at, events are all its input.
#pragma once

#include <cstdint>
#include <string>
#include <variant>
#include <vector>

#include "scheduler/job.h"
#include "scheduler/state/state.h"

namespace longhaul::scheduler {

struct JobSubmitted {
  JobRequest request;
};
struct JobChanged {  // of a waiting job; its place in the queue is kept
  JobRequest request;
};
struct JobExpedited {  // an operator puts it before all others
  JobId job;
};
struct JobEnded {  // finished, failed for good or cancelled
  JobId job;
};
struct JobEvictionAsked {  // by an operator; it goes back into its queue
  JobId job;
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
struct NodeFaulted {  // a task failed there for the node's own fault; the node goes on
  std::string node;
};

struct QueueLimitSet {
  std::string queue;
  spec::SharedAmounts limit;
};

using Event = std::variant<JobSubmitted, JobChanged, JobExpedited, JobEnded, JobEvictionAsked,
                           JobStopped, SnapshotTaken, TasksBound, TasksRunning, TaskRefused,
                           NodeChanged, DeviceChanged, NodeFaulted, QueueLimitSet>;

// One line for a log: "submitted job-1", "node-3 is down".
std::string ToString(const Event& event);

}  // namespace longhaul::scheduler
