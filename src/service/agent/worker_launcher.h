// Workers as processes: starts them, watches them by pidfd, signals whole process groups, reaps
// them.
//
// A command is executed unchanged; the built-in trainer, and a Python program that imports
// packages, are forked from their job's fork server (python/python_fork_server.h). Each
// worker has its own session and dies with the thread that runs the loop. When a worker has ended,
// the rest of its process group is killed before its end is reported. Processes that left the group
// are killed too once they are orphans, if they have the worker's LONGHAUL_AGENT_SOCKET and RANK in
// their environment; with control groups all processes of an attempt are killed when its last
// worker has ended. An attempt that reaches a limit of its job is killed (isolation/).
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "base/ids.h"
#include "base/status.h"
#include "io/event_loop.h"
#include "io/fd.h"
#include "io/process/user_account.h"
#include "runtime/agent/agent_messages.h"
#include "service/agent/activity/activity_watch.h"
#include "service/agent/fork_server/job_fork_servers.h"
#include "service/agent/isolation/job_isolation.h"
#include "service/agent/isolation/log_limit.h"
#include "service/agent/output/output_copier.h"
#include "service/agent/output/output_follower.h"
#include "service/agent/output/worker_output.h"
#include "service/agent/python/python_fork_server.h"
#include "service/agent/python/worker_library.h"

namespace longhaul::service {

struct WorkerLauncherOptions {
  std::string trainer;  // the built-in trainer's program; empty: its workers fail with NoTrainer()
  std::optional<io::UserAccount> user;  // of the workers and of their files; none: this process's
  std::unique_ptr<io::CgroupFolder> groups;  // none: processes are counted
  std::string no_groups;                     // the reason for that
  std::string network_interface;             // that has the agent's address; empty: loopback
  int copy_output_to = -1;                   // what commands write is copied there too; -1: not
};

class WorkerLauncher {
 public:
  // `report` receives WorkerForked and WorkerGone, ReadyReport about a log that is too long, and
  // for commands WorkerOutputStep and WorkerQuiet, on the loop's thread. All calls on that thread.
  // `loop` must outlive this.
  WorkerLauncher(io::EventLoop& loop, WorkerLauncherOptions options,
                 std::function<void(runtime::AgentInput)> report);
  // Kills and reaps all remaining workers.
  ~WorkerLauncher();
  WorkerLauncher(const WorkerLauncher&) = delete;
  WorkerLauncher& operator=(const WorkerLauncher&) = delete;

  // `worker_api` is the path for LONGHAUL_AGENT_SOCKET. Logs go below `run_directory`.
  void Spawn(const runtime::SpawnWorker& order, const std::string& run_directory,
             const std::string& worker_api);
  // What a process needs to become another worker; the caller sends it to the process.
  struct Continued {
    std::map<std::string, std::string> environment;  // what this process's own does not have
    int log = -1;  // for its standard output and error; open while the worker runs
  };
  // The process of `from` becomes the order's worker. On an error it is killed and remains `from`.
  Result<Continued> Continue(const runtime::WorkerId& from, const runtime::SpawnWorker& order,
                             const std::string& run_directory, const std::string& worker_api);
  void Signal(const runtime::WorkerId& worker, int signal);
  // Returns the process of a worker that has not been reaped.
  std::optional<pid_t> Pid(const runtime::WorkerId& worker) const;
  // Returns the file into which the worker writes its stack, if it can.
  std::string StackFile(const runtime::WorkerId& worker) const;
  // As ActivityWatch::Compare.
  std::map<runtime::WorkerId, Duration> CompareActivity(
      const std::vector<runtime::WorkerId>& workers) {
    return activity_.Compare(workers);
  }
  // Returns the text of a StackFile.
  Result<std::string> ReadStack(const std::string& path) const;
  // Writes the stacks of workers to a file of their run.
  Status WriteStacks(const std::string& path, const std::string& text) const;

  // Whether the process may speak for the worker: it is the worker's, one that it has started, or
  // one of its session. A forked worker may connect before its fork server has reported its
  // process; until then it is a child of this process that is no known worker.
  bool IsProcessOf(const runtime::WorkerId& worker, pid_t process) const;

  // Starts the job's fork server, if its workers are forked; they may come later.
  void Prepare(const runtime::PrepareFork& order, const std::string& run_directory);
  void EndPrepared(const JobId& job);
  // The job has ended: ends its fork server.
  void DropJob(const JobId& job);
  // Sends SIGKILL to every worker's group.
  void KillAll();

  // What enforces the limits of jobs, in one line.
  std::string LimitsDescription() const { return isolation_->Description(); }

 private:
  using Mark = std::vector<std::string>;  // MarkOf; empty for the built-in trainer

  struct Running {
    pid_t pid = 0;
    io::Fd pidfd;
    WorkerOutput output;
    Mark mark;
    LogLimit log_limit;
    bool was_stopped = false;  // it was in state T when the signal that ends it was sent
  };
  struct Attempt {
    uint32_t local_ranks = 0;
    uint32_t spawned = 0;
    uint32_t alive = 0;  // of these
    JobLimits limits;
    std::string socket_entry;  // in the environment of all its processes
    std::optional<ReachedLimit> reached;
  };

  Status Begin(const runtime::SpawnWorker& order, const std::string& worker_api);
  void Leave(const runtime::WorkerId& worker);
  void End(const AttemptId& attempt, int tries);
  void EndIdle(const JobId& job, uint64_t below_attempt);
  void CheckLimits();
  void KillAttempt(const AttemptId& attempt);
  std::vector<pid_t> OrphansOf(const AttemptId& attempt) const;
  void ReapKilled();
  const io::UserAccount* user() const { return user_.has_value() ? &*user_ : nullptr; }
  Result<WorkerOutput> OpenOutput(const runtime::WorkerId& worker,
                                  const std::string& run_directory);
  Status Follow(const runtime::SpawnWorker& order, const WorkerOutput& output);
  void Unfollow(const runtime::WorkerId& worker);
  using Environment = std::map<std::string, std::string>;

  void Execute(const runtime::SpawnWorker& order, Environment environment, WorkerOutput output);
  void ForkTrainer(const runtime::SpawnWorker& order, const std::string& run_directory,
                   const Environment& environment, WorkerOutput output);
  bool ForksPython(const runtime::SpawnWorker& order, const Environment& environment) const;
  void ForkPython(const runtime::SpawnWorker& order, const std::string& run_directory,
                  Environment environment, WorkerOutput output);
  static PythonProgram ProgramOf(const runtime::SpawnWorker& order);
  Result<ForkServerLink*> TrainerServer(const JobId& job, const std::string& run_directory);
  Result<ForkServerLink*> PythonServer(const runtime::SpawnWorker& order,
                                       const PythonProgram& program, const Environment& environment,
                                       const std::string& run_directory);
  Result<Environment> EnvironmentFor(const runtime::SpawnWorker& order,
                                     const std::string& error_path,
                                     const std::string& worker_api) const;
  void ExecuteInstead(const runtime::SpawnWorker& order, Environment environment,
                      WorkerOutput output, const Status& why);
  void AdoptForked(const runtime::WorkerId& worker, int64_t pid, WorkerOutput output, Mark mark);
  Result<Continued> PrepareContinued(const runtime::SpawnWorker& order,
                                     const std::string& worker_api, const WorkerOutput& output);
  void Adopt(const runtime::WorkerId& worker, io::Process process, WorkerOutput output, Mark mark,
             bool entered);
  void Fail(const runtime::WorkerId& worker, const Status& reason);
  void OnEnd(const runtime::WorkerId& worker);
  void ReapGroup(pid_t group, int tries);
  void KillEscaped(const Mark& mark, std::vector<pid_t> killed, int tries, int empty);

  io::EventLoop& loop_;
  const std::string trainer_;
  const std::optional<io::UserAccount> user_;
  JobForkServers fork_servers_;
  const std::unique_ptr<JobIsolation> isolation_;
  const std::string worker_library_ = FindWorkerLibrary();
  const std::string python_packages_ = FindPythonPackages();
  const std::string network_interface_;
  const std::function<void(runtime::AgentInput)> report_;
  OutputFollower follower_;
  std::unique_ptr<OutputCopier> copier_;  // none: the output is not copied
  ActivityWatch activity_;
  std::map<runtime::WorkerId, Running> running_;
  // Groups whose orphans became children of the agent.
  std::map<pid_t, io::EventLoop::TimerId> reaping_;
  // Marks of ended workers whose processes outside of their group are being killed.
  std::map<Mark, io::EventLoop::TimerId> escaped_;
  std::map<AttemptId, Attempt> attempts_;
  std::map<AttemptId, io::EventLoop::TimerId> ending_;  // whose last processes are being killed
  io::EventLoop::TimerId limits_timer_ = 0;             // runs while there are attempts
  std::vector<pid_t> killed_;                           // that may become children of this process
};

}  // namespace longhaul::service
