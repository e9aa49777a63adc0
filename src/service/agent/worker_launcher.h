// Workers as processes: started, watched by pidfd, signalled as whole process groups, reaped.
//
// A command is executed as it stands; the built-in trainer is forked from its job's warm parent.
// Each worker has a session of its own and dies with the thread that runs the loop. When one has
// ended, whatever is left of its process group is killed before its end is told.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/ids.h"
#include "base/status.h"
#include "io/event_loop.h"
#include "io/fd.h"
#include "runtime/agent_messages.h"
#include "service/agent/door_library.h"
#include "service/agent/warm_parent_link.h"
#include "service/agent/worker_output.h"

namespace longhaul::service {

class WorkerLauncher {
 public:
  // `tell` hears WorkerForked and WorkerGone, on the loop's thread, where all calls belong.
  // `trainer` is the built-in one's program. `loop` must outlive this.
  WorkerLauncher(io::EventLoop& loop, std::string trainer,
                 std::function<void(runtime::AgentInput)> tell);
  // Kills and reaps whatever is left.
  ~WorkerLauncher();
  WorkerLauncher(const WorkerLauncher&) = delete;
  WorkerLauncher& operator=(const WorkerLauncher&) = delete;

  // `door` is the path for LONGHAUL_DOOR. Logs go below `run_directory`.
  void Spawn(const runtime::SpawnWorker& order, const std::string& run_directory,
             const std::string& door);
  void Signal(const runtime::WorkerId& worker, int signal);
  // The process of a worker that has not been reaped.
  std::optional<pid_t> Pid(const runtime::WorkerId& worker) const;

  // The job is over: its warm parent ends.
  void DropJob(const JobId& job);
  // SIGKILL to every worker's group.
  void KillAll();

 private:
  struct Running {
    pid_t pid = 0;
    io::Fd pidfd;
    WorkerOutput output;
  };

  void Execute(const runtime::SpawnWorker& order, std::map<std::string, std::string> environment,
               WorkerOutput output);
  void ForkWarm(const runtime::SpawnWorker& order, const std::string& run_directory,
                const std::map<std::string, std::string>& environment, WorkerOutput output);
  Result<WarmParentLink*> WarmParent(const JobId& job, const std::string& run_directory);
  void Adopt(const runtime::WorkerId& worker, pid_t pid, io::Fd pidfd, WorkerOutput output);
  void Fail(const runtime::WorkerId& worker, const Status& reason);
  void OnEnd(const runtime::WorkerId& worker);
  void ReapGroup(pid_t group, int tries);

  io::EventLoop& loop_;
  const std::string trainer_;
  const std::string door_library_ = FindDoorLibrary();
  const std::function<void(runtime::AgentInput)> tell_;
  std::map<runtime::WorkerId, Running> running_;
  std::map<JobId, std::unique_ptr<WarmParentLink>> warm_parents_;
  std::map<pid_t, io::EventLoop::TimerId> reaping_;  // groups whose orphans became our children
};

}  // namespace longhaul::service
