// Keeps the processes of one job from harming the others of the node: limits of their number and of
// their memory, and the end of all of them.
//
// Two implementations. `MakeGroupIsolation` makes a control group for each attempt of a job, and
// the kernel enforces the limits. `MakeCountedIsolation` needs no rights: it counts the processes
// below the workers and lets the launcher end the attempt; until then other jobs can be slowed.
// Leaves out quotas of the disk; the size of logs is in log_limit.h.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/ids.h"
#include "base/status.h"
#include "io/process/cgroup.h"
#include "proto/job.pb.h"

namespace longhaul::service {

// A job's attempt on this node.
using AttemptId = std::pair<JobId, uint64_t>;

// Of a job on one node; 0: none.
struct JobLimits {
  uint64_t tasks = 0;  // processes and threads
  uint64_t memory_bytes = 0;
  uint64_t log_bytes = 0;  // of each worker's log
};

// Where the job states no number: PyTorch with data loaders and the threads of numerical libraries
// needs some hundreds for each worker.
constexpr uint64_t kTasksOfWorker = 4096;

// Returns the limits of a job with so many workers on this node. A job that was submitted to an
// older controller has the defaults.
JobLimits LimitsOf(const proto::Job& job, uint32_t local_workers);

// A limit that an attempt has reached, for the user.
struct ReachedLimit {
  std::string text;       // "the job has reached its limit of 4096 processes and threads, ..."
  bool ends_job = false;  // to restart it would do the same again
};

class JobIsolation {
 public:
  virtual ~JobIsolation() = default;

  // One line for the agent's log: what enforces the limits.
  virtual std::string Description() const = 0;
  // Prepares an attempt, whose first worker is about to start. Each attempt once, until End.
  virtual Status Begin(const AttemptId& attempt, const JobLimits& limits) = 0;
  // Descriptors of groups that a new worker enters before it runs (io::ProcessOptions::groups).
  virtual std::vector<int> Entrances(const AttemptId& attempt) const = 0;
  // A worker has started; `entered`: through the entrances.
  virtual void Add(const AttemptId& attempt, pid_t worker, bool entered) = 0;
  // A worker has ended and was reaped.
  virtual void Remove(const AttemptId& attempt, pid_t worker) = 0;
  // A worker continues in another attempt, which has begun: it and its descendants belong to that
  // one from now on.
  virtual void Move(const AttemptId& from, const AttemptId& to, pid_t worker) = 0;
  // Looks whether a limit has been reached. Call it several times a second, and when a worker has
  // failed.
  virtual std::optional<ReachedLimit> Check(const AttemptId& attempt) = 0;
  // Sends SIGKILL to the processes of the attempt that it can find, and returns them.
  virtual std::vector<pid_t> Kill(const AttemptId& attempt) = 0;
  // The attempt has no worker any more. Returns whether nothing of it is left; if something is,
  // call it again after Kill and a pause.
  virtual bool End(const AttemptId& attempt) = 0;
};

std::unique_ptr<JobIsolation> MakeGroupIsolation(std::unique_ptr<io::CgroupFolder> folder);

// `why` says why there are no control groups. `orphans` returns the processes of an attempt that
// are not below its workers any more.
std::unique_ptr<JobIsolation> MakeCountedIsolation(
    std::string why, std::function<std::vector<pid_t>(const AttemptId&)> orphans);

}  // namespace longhaul::service
