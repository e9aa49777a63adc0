#include "service/agent/worker_launcher.h"

#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <cstdio>
#include <set>
#include <thread>
#include <utility>

#include "base/check.h"
#include "io/files/file.h"
#include "io/log/log.h"
#include "io/process/process.h"
#include "io/process/process_tree.h"
#include "runtime/rendezvous/torchrun.h"
#include "service/agent/activity/stack_reader.h"
#include "service/agent/python/python_fork_server.h"
#include "service/agent/worker_environment.h"
#include "service/trainer_program.h"

namespace longhaul::service {
namespace {

// Orphans of an ended worker's group were sent SIGKILL: they end at once, as a rule.
constexpr Duration kReapAgain = std::chrono::milliseconds(20);
constexpr int kReapTries = 50;
// A list of children can miss one while others end: so often in a row none must be found.
constexpr int kEmptyScans = 3;

// How often limits are checked: it bounds how far a job without control group gets beyond them.
constexpr Duration kLimitsPeriod = std::chrono::milliseconds(100);

// Kills the children with all these entries in their environment, and returns them.
std::vector<pid_t> KillChildrenWith(const std::vector<std::string>& mark) {
  std::vector<pid_t> killed;
  for (const pid_t child : io::OwnChildren()) {
    const auto has = [child](const std::string& entry) { return io::StartedWith(child, entry); };
    if (!std::ranges::all_of(mark, has)) continue;
    (void)kill(child, SIGKILL);  // its number is not another's before it is reaped
    killed.push_back(child);
  }
  return killed;
}

// Whether no retry can help.
bool IsPermanent(const Status& status) {
  return status.code() == Code::kNotFound || status.code() == Code::kPermissionDenied ||
         status.code() == Code::kInvalidArgument;
}

}  // namespace

WorkerLauncher::WorkerLauncher(io::EventLoop& loop, WorkerLauncherOptions options,
                               std::function<void(runtime::AgentInput)> report)
    : loop_(loop),
      trainer_(std::move(options.trainer)),
      user_(std::move(options.user)),
      fork_servers_(loop, user_),
      isolation_(options.groups != nullptr ? MakeGroupIsolation(std::move(options.groups))
                                           : MakeCountedIsolation(std::move(options.no_groups),
                                                                  [this](const AttemptId& attempt) {
                                                                    return OrphansOf(attempt);
                                                                  })),
      network_interface_(std::move(options.network_interface)),
      report_(std::move(report)),
      follower_(loop, report_),
      copier_(options.copy_output_to < 0 ? nullptr
                                         : std::make_unique<OutputCopier>(options.copy_output_to)),
      activity_(loop, report_) {}

WorkerLauncher::~WorkerLauncher() {
  for (const auto& [group, timer] : reaping_) loop_.Cancel(timer);
  for (const auto& [mark, timer] : escaped_) loop_.Cancel(timer);
  for (const auto& [attempt, timer] : ending_) loop_.Cancel(timer);
  loop_.Cancel(limits_timer_);
  KillAll();
  for (const auto& [worker, process] : running_) {
    loop_.Unwatch(process.pidfd.get());
    (void)io::Reap(process.pidfd);
    // A killed process leaves its children to this one: repeated, but bounded.
    for (int i = 0; i < kReapTries && !process.mark.empty(); ++i) {
      const std::vector<pid_t> killed = KillChildrenWith(process.mark);
      if (killed.empty()) break;
      for (const pid_t child : killed) (void)waitpid(child, nullptr, 0);
    }
  }
  fork_servers_.Clear();
  std::set<AttemptId> rest;
  for (const auto& [attempt, state] : attempts_) rest.insert(attempt);
  for (const auto& [attempt, timer] : ending_) rest.insert(attempt);
  for (const AttemptId& attempt : rest) {
    for (int i = 0; i < kReapTries; ++i) {
      for (const pid_t child : isolation_->Kill(attempt)) (void)waitpid(child, nullptr, 0);
      if (isolation_->End(attempt)) break;
      std::this_thread::sleep_for(kReapAgain);
    }
  }
}

// The first worker of an attempt on this node brings its group into being.
Status WorkerLauncher::Begin(const runtime::SpawnWorker& order, const std::string& worker_api) {
  const AttemptId id{order.worker.job, order.worker.attempt};
  const auto [found, fresh] = attempts_.try_emplace(id);
  Attempt& attempt = found->second;
  if (fresh) {
    EndIdle(id.first, id.second);
    attempt.local_ranks = order.start->local_ranks();
    attempt.limits = LimitsOf(order.start->job(), attempt.local_ranks);
    attempt.socket_entry = std::string(kSocketVariable) + "=" + worker_api;
    if (const Status begun = isolation_->Begin(id, attempt.limits); !begun.ok()) {
      attempts_.erase(found);
      return begun;
    }
    if (limits_timer_ == 0) {
      limits_timer_ = loop_.After(kLimitsPeriod, [this] { CheckLimits(); });
    }
  }
  ++attempt.spawned;
  ++attempt.alive;
  return {};
}

// A worker has ended, or was not started.
void WorkerLauncher::Leave(const runtime::WorkerId& worker) {
  const AttemptId id{worker.job, worker.attempt};
  const auto found = attempts_.find(id);
  if (found == attempts_.end() || found->second.alive == 0) return;
  Attempt& attempt = found->second;
  if (--attempt.alive > 0 || attempt.spawned < attempt.local_ranks) return;
  attempts_.erase(found);
  End(id, kReapTries);
}

// Attempts that were never started as a whole: some of their workers were not wanted any more.
void WorkerLauncher::EndIdle(const JobId& job, uint64_t below_attempt) {
  std::vector<AttemptId> idle;
  for (const auto& [id, attempt] : attempts_) {
    if (id.first == job && id.second < below_attempt && attempt.alive == 0) idle.push_back(id);
  }
  for (const AttemptId& id : idle) {
    attempts_.erase(id);
    End(id, kReapTries);
  }
}

// Whatever its workers have left behind is killed.
void WorkerLauncher::End(const AttemptId& attempt, int tries) {
  ending_.erase(attempt);
  const std::vector<pid_t> killed = isolation_->Kill(attempt);
  killed_.insert(killed_.end(), killed.begin(), killed.end());
  ReapKilled();
  if (isolation_->End(attempt) || tries == 0) return;
  ending_[attempt] = loop_.After(kReapAgain, [this, attempt, tries] { End(attempt, tries - 1); });
}

void WorkerLauncher::CheckLimits() {
  limits_timer_ = 0;
  std::vector<AttemptId> over;
  for (auto& [id, attempt] : attempts_) {
    if (!attempt.reached.has_value()) attempt.reached = isolation_->Check(id);
    if (attempt.reached.has_value()) over.push_back(id);
  }
  for (const AttemptId& id : over) KillAttempt(id);
  ReapKilled();
  std::vector<proto::Event> notes;
  for (auto& [worker, process] : running_) {
    const Result<bool> limited = process.log_limit.Enforce();
    if (limited.ok() && !*limited) continue;
    proto::LogLimited& note = *notes.emplace_back().mutable_log_limited();
    note.set_job_id(worker.job.value());
    note.set_attempt(worker.attempt);
    note.set_rank(worker.rank);
    note.set_limit_bytes(process.log_limit.limit());
    if (!limited.ok()) note.set_error(limited.status().message());
  }
  for (proto::Event& note : notes) report_(runtime::ReadyReport{std::move(note)});
  if (!attempts_.empty() && limits_timer_ == 0) {
    limits_timer_ = loop_.After(kLimitsPeriod, [this] { CheckLimits(); });
  }
}

// Groups of processes are stopped first: the kernel stops all processes of one at once, while they
// fork.
void WorkerLauncher::KillAttempt(const AttemptId& attempt) {
  const auto signal_groups = [&](int signal) {
    for (const auto& [worker, process] : running_) {
      if (AttemptId{worker.job, worker.attempt} == attempt) {
        (void)io::SignalGroup(process.pid, signal);
      }
    }
  };
  signal_groups(SIGSTOP);
  const std::vector<pid_t> killed = isolation_->Kill(attempt);
  killed_.insert(killed_.end(), killed.begin(), killed.end());
  signal_groups(SIGKILL);
}

// Of processes that are not this one's children, and of workers, the end is seen elsewhere.
void WorkerLauncher::ReapKilled() {
  std::set<pid_t> workers;
  for (const auto& [worker, process] : running_) workers.insert(process.pid);
  std::erase_if(killed_, [&](pid_t process) {
    return workers.contains(process) || waitpid(process, nullptr, WNOHANG) != 0;
  });
}

std::vector<pid_t> WorkerLauncher::OrphansOf(const AttemptId& attempt) const {
  const auto found = attempts_.find(attempt);
  std::vector<pid_t> orphans;
  if (found == attempts_.end()) return orphans;
  std::set<pid_t> workers;
  for (const auto& [worker, process] : running_) workers.insert(process.pid);
  for (const pid_t child : io::OwnChildren()) {
    // Those of a worker's session are found by it.
    if (workers.contains(child) || workers.contains(::getsid(child))) continue;
    if (io::StartedWith(child, found->second.socket_entry)) orphans.push_back(child);
  }
  return orphans;
}

void WorkerLauncher::Spawn(const runtime::SpawnWorker& order, const std::string& run_directory,
                           const std::string& worker_api) {
  if (const Status begun = Begin(order, worker_api); !begun.ok()) {
    return Fail(order.worker, begun);
  }
  Result<WorkerOutput> output = OpenOutput(order.worker, run_directory);
  if (!output.ok()) return Fail(order.worker, output.status());
  Result<Environment> environment = EnvironmentFor(order, output->error_path, worker_api);
  if (!environment.ok()) return Fail(order.worker, environment.status());
  if (order.start->job().workload().built_in()) {
    ForkTrainer(order, run_directory, *environment, *std::move(output));
  } else if (ForksPython(order, *environment)) {
    ForkPython(order, run_directory, *std::move(environment), *std::move(output));
  } else {
    Execute(order, *std::move(environment), *std::move(output));
  }
}

Result<WorkerLauncher::Environment> WorkerLauncher::EnvironmentFor(
    const runtime::SpawnWorker& order, const std::string& error_path,
    const std::string& worker_api) const {
  ASSIGN_OR_RETURN(Environment environment,
                   EnvironmentOfWorker(order, {error_path, worker_api, worker_library_,
                                               python_packages_, network_interface_}));
  if (!user_.has_value()) return environment;
  io::SetUserVariables(*user_, environment);
  for (const auto& [name, value] : order.start->job().workload().environment()) {
    environment[name] = value;
  }
  return environment;
}

// The environment is that of the job's first worker, which every worker replaces by its own.
void WorkerLauncher::Prepare(const runtime::PrepareFork& order, const std::string& run_directory) {
  const runtime::SpawnWorker first{{order.job, order.start->attempt(), order.start->first_rank()},
                                   order.start};
  const Result<Environment> environment = EnvironmentFor(first, "", "");
  Status prepared = environment.status();
  if (prepared.ok() && order.start->job().workload().built_in()) {
    prepared = TrainerServer(order.job, run_directory).status();
  } else if (prepared.ok() && ForksPython(first, *environment)) {
    prepared = PythonServer(first, ProgramOf(first), *environment, run_directory).status();
  }
  // The job's workers start all the same, if they come here.
  if (!prepared.ok()) io::LogDebug("agent", "no fork server in advance: " + prepared.message());
}

void WorkerLauncher::EndPrepared(const JobId& job) { fork_servers_.Forget(job); }

// The identity ends with the call: what the answers of others do, they do as this process.
Result<WorkerOutput> WorkerLauncher::OpenOutput(const runtime::WorkerId& worker,
                                                const std::string& run_directory) {
  const io::FileIdentity files(user());
  Result<WorkerOutput> output = OpenWorkerOutput(run_directory, worker.attempt, worker.rank);
  if (!user_.has_value() || output.status().code() != Code::kPermissionDenied) return output;
  return PermissionDenied(output.status().message() +
                          "; with --run-as the run directory must "
                          "belong to user " +
                          user_->name +
                          ": run the controller as this user, or name another directory with "
                          "--run-directory");
}

Status WorkerLauncher::Follow(const runtime::SpawnWorker& order, const WorkerOutput& output) {
  const std::string& pattern = order.start->job().workload().step_pattern();
  const io::FileIdentity files(user());
  if (copier_ != nullptr) {
    RETURN_IF_ERROR(copier_->Follow(order.worker, output.log_path, output.begin));
  }
  if (pattern.empty()) return {};
  return follower_.Follow(order.worker, output.log_path, output.begin, pattern);
}

void WorkerLauncher::Unfollow(const runtime::WorkerId& worker) {
  follower_.Finish(worker);
  if (copier_ != nullptr) copier_->Finish(worker);
}

void WorkerLauncher::Execute(const runtime::SpawnWorker& order,
                             std::map<std::string, std::string> environment, WorkerOutput output) {
  const proto::Workload& workload = order.start->job().workload();
  if (const Status followed = Follow(order, output); !followed.ok()) {
    return Fail(order.worker, followed);
  }
  io::ProcessOptions options;
  options.argv = runtime::WorkerArgv({workload.command().begin(), workload.command().end()},
                                     order.worker.rank - order.start->first_rank());
  options.environment = std::move(environment);
  options.working_directory = workload.working_directory();
  options.stdout_fd = output.log.get();
  options.stderr_fd = output.log.get();
  options.signal_on_parent_death = SIGKILL;
  options.groups = isolation_->Entrances({order.worker.job, order.worker.attempt});
  options.user = user_;
  Mark mark = MarkOf(options.environment);
  Result<io::Process> process = io::Start(options);
  if (!process.ok()) {
    Unfollow(order.worker);
    return Fail(order.worker, process.status());
  }
  activity_.Watch(order.worker, process->pid, output.log_path, order.start->job().hang());
  Adopt(order.worker, *std::move(process), std::move(output), std::move(mark), true);
}

Result<ForkServerLink*> WorkerLauncher::TrainerServer(const JobId& job,
                                                      const std::string& run_directory) {
  return fork_servers_.Get(job, run_directory, [this]() -> Result<ForkServerCommand> {
    if (trainer_.empty()) return NoTrainer();
    ForkServerCommand command = TrainerForkServer(trainer_);
    if (user_.has_value()) io::SetUserVariables(*user_, command.environment);
    return command;
  });
}

void WorkerLauncher::ForkTrainer(const runtime::SpawnWorker& order,
                                 const std::string& run_directory, const Environment& environment,
                                 WorkerOutput output) {
  const Result<ForkServerLink*> server = TrainerServer(order.worker.job, run_directory);
  if (!server.ok()) return Fail(order.worker, server.status());
  const int log = output.log.get();
  // Shared, because a function must be copyable; it has one owner all the same.
  auto kept = std::make_shared<WorkerOutput>(std::move(output));
  (*server)->Fork(environment, {}, log,
                  [this, worker = order.worker, kept](const Result<int64_t>& pid) {
                    if (!pid.ok()) return Fail(worker, pid.status());
                    AdoptForked(worker, *pid, std::move(*kept), Mark());
                  });
}

bool WorkerLauncher::ForksPython(const runtime::SpawnWorker& order,
                                 const Environment& environment) const {
  const proto::Workload& workload = order.start->job().workload();
  const std::vector<std::string> argv(workload.command().begin(), workload.command().end());
  return !ForkServerIsOff(environment) && !fork_servers_.HasFailed(order.worker.job) &&
         ParsePythonProgram(argv).has_value();
}

// Requires that ForksPython is true.
PythonProgram WorkerLauncher::ProgramOf(const runtime::SpawnWorker& order) {
  const proto::Workload& workload = order.start->job().workload();
  const std::optional<PythonProgram> program =
      ParsePythonProgram(runtime::WorkerArgv({workload.command().begin(), workload.command().end()},
                                             order.worker.rank - order.start->first_rank()));
  CHECK(program.has_value()) << "a word of the command has changed what it is";
  return *program;
}

Result<ForkServerLink*> WorkerLauncher::PythonServer(const runtime::SpawnWorker& order,
                                                     const PythonProgram& program,
                                                     const Environment& environment,
                                                     const std::string& run_directory) {
  const std::string& folder = order.start->job().workload().working_directory();
  return fork_servers_.Get(order.worker.job, run_directory, [&] {
    return Result<ForkServerCommand>(PythonForkServer(program, environment, folder,
                                                      {python_packages_},
                                                      run_directory + "/logs/fork-server.modules"));
  });
}

void WorkerLauncher::ForkPython(const runtime::SpawnWorker& order, const std::string& run_directory,
                                Environment environment, WorkerOutput output) {
  const PythonProgram program = ProgramOf(order);
  const Result<ForkServerLink*> server = PythonServer(order, program, environment, run_directory);
  if (!server.ok()) {
    return ExecuteInstead(order, std::move(environment), std::move(output), server.status());
  }
  if (const Status followed = Follow(order, output); !followed.ok()) {
    return Fail(order.worker, followed);
  }
  Environment forked = environment;
  forked[kForkedVariable] = "1";
  forked[kStackFileVariable] = output.stack_path;
  const int log = output.log.get();
  auto kept = std::make_shared<WorkerOutput>(std::move(output));
  (*server)->Fork(forked, program.words, log,
                  [this, order, kept, environment](const Result<int64_t>& pid) {
                    if (!pid.ok()) {
                      Unfollow(order.worker);
                      return ExecuteInstead(order, environment, std::move(*kept), pid.status());
                    }
                    const std::string log_path = kept->log_path;
                    AdoptForked(order.worker, *pid, std::move(*kept), MarkOf(environment));
                    activity_.Watch(order.worker, static_cast<pid_t>(*pid), log_path,
                                    order.start->job().hang());
                  });
}

// A worker without a fork server starts later, and does the same.
void WorkerLauncher::ExecuteInstead(const runtime::SpawnWorker& order, Environment environment,
                                    WorkerOutput output, const Status& why) {
  if (fork_servers_.TakeFailure(order.worker.job, why)) {
    dprintf(output.log.get(), "longhaul: workers start without a fork server: %s\n",
            why.message().c_str());
  }
  Execute(order, std::move(environment), std::move(output));
}

void WorkerLauncher::AdoptForked(const runtime::WorkerId& worker, int64_t pid, WorkerOutput output,
                                 Mark mark) {
  Result<io::Fd> pidfd = io::OpenPidfd(static_cast<pid_t>(pid));
  if (!pidfd.ok()) return Fail(worker, pidfd.status());
  Adopt(worker, {static_cast<pid_t>(pid), *std::move(pidfd)}, std::move(output), std::move(mark),
        false);
}

void WorkerLauncher::Adopt(const runtime::WorkerId& worker, io::Process process,
                           WorkerOutput output, Mark mark, bool entered) {
  const AttemptId id{worker.job, worker.attempt};
  isolation_->Add(id, process.pid, entered);
  const auto attempt = attempts_.find(id);
  LogLimit limit(std::move(output.log),
                 attempt == attempts_.end() ? 0 : attempt->second.limits.log_bytes);
  const pid_t pid = process.pid;
  const int watched = process.pidfd.get();
  running_.insert_or_assign(worker, Running{pid, std::move(process.pidfd), std::move(output),
                                            std::move(mark), std::move(limit)});
  loop_.Watch(watched, false, [this, worker](bool, bool) { OnEnd(worker); });
  report_(runtime::WorkerForked{worker, pid, "", false});
}

void WorkerLauncher::Fail(const runtime::WorkerId& worker, const Status& reason) {
  Leave(worker);
  report_(runtime::WorkerForked{worker, 0, reason.message(), IsPermanent(reason)});
}

void WorkerLauncher::OnEnd(const runtime::WorkerId& worker) {
  const auto found = running_.find(worker);
  if (found == running_.end()) return;
  const Running process = std::move(found->second);
  running_.erase(found);
  loop_.Unwatch(process.pidfd.get());
  // Until it is reaped its number can't be another group's.
  (void)io::SignalGroup(process.pid, SIGKILL);
  const Result<io::ExitStatus> status = io::Reap(process.pidfd);
  const AttemptId id{worker.job, worker.attempt};
  isolation_->Remove(id, process.pid);
  ReapGroup(process.pid, kReapTries);
  if (!process.mark.empty()) KillEscaped(process.mark, {}, kReapTries, 0);
  activity_.Forget(worker);
  {
    const io::FileIdentity files(user());
    unlink(process.output.stack_path.c_str());
  }
  Unfollow(worker);

  runtime::WorkerGone gone;
  gone.worker = worker;
  gone.was_stopped = process.was_stopped;
  if (status.ok()) {
    gone.exit_code = status->exit_code;
    gone.signal = status->signal;
  }
  if (gone.exit_code != 0) {
    const io::FileIdentity files(user());
    // SIGKILL leaves no time for last words, but the worker may have failed before.
    LastWords words = gone.signal == SIGKILL ? ReadErrorFile(process.output).value_or(LastWords())
                                             : ReadLastWords(process.output);
    gone.message = std::move(words.message);
    gone.error_at_ns = words.error_at_ns;
  }
  const auto attempt = attempts_.find(id);
  if (attempt != attempts_.end() && gone.exit_code != 0) {
    std::optional<ReachedLimit>& reached = attempt->second.reached;
    if (!reached.has_value()) reached = isolation_->Check(id);
    if (reached.has_value()) {
      gone.reached_limit = reached->text;
      gone.ends_job = reached->ends_job;
      KillAttempt(id);
    }
  }
  Leave(worker);
  report_(std::move(gone));
}

// Descendants of an ended worker are our children now, because we are a subreaper.
void WorkerLauncher::ReapGroup(pid_t group, int tries) {
  reaping_.erase(group);
  siginfo_t info{};
  for (;;) {
    info.si_pid = 0;
    if (waitid(P_PGID, static_cast<id_t>(group), &info, WEXITED | WNOHANG) != 0) return;
    if (info.si_pid == 0) break;  // some are left, none has ended
  }
  if (tries == 0) return;
  reaping_[group] = loop_.After(kReapAgain, [this, group, tries] { ReapGroup(group, tries - 1); });
}

// Each killed process leaves its own children to this one, so that a further round finds them.
void WorkerLauncher::KillEscaped(const Mark& mark, std::vector<pid_t> killed, int tries,
                                 int empty) {
  escaped_.erase(mark);
  // Before the others are looked for, because it may become one of them at any moment.
  const bool unknown = std::ranges::any_of(io::OwnChildren(), io::HasNoEnvironment);
  // One that has ended has no environment, and so is not found a second time.
  std::erase_if(killed, [](pid_t child) { return waitpid(child, nullptr, WNOHANG) != 0; });
  for (const pid_t child : KillChildrenWith(mark)) {
    if (std::ranges::find(killed, child) == killed.end()) killed.push_back(child);
  }
  empty = killed.empty() && !unknown ? empty + 1 : 0;
  if (empty == kEmptyScans || tries == 0) return;
  escaped_[mark] = loop_.After(kReapAgain, [this, mark, killed, tries, empty] {
    KillEscaped(mark, killed, tries - 1, empty);
  });
}

// Everything that can fail, before anything of the process is changed.
Result<WorkerLauncher::Continued> WorkerLauncher::PrepareContinued(
    const runtime::SpawnWorker& order, const std::string& worker_api, const WorkerOutput& output) {
  ASSIGN_OR_RETURN(Environment environment, EnvironmentFor(order, output.error_path, worker_api));
  RETURN_IF_ERROR(Follow(order, output));
  if (const Status begun = Begin(order, worker_api); !begun.ok()) {
    Unfollow(order.worker);
    return begun;
  }
  const Environment own = io::CurrentEnvironment();
  std::erase_if(environment, [&own](const auto& entry) {
    const auto same = own.find(entry.first);
    return same != own.end() && same->second == entry.second;
  });
  return Continued{std::move(environment), output.log.get()};
}

Result<WorkerLauncher::Continued> WorkerLauncher::Continue(const runtime::WorkerId& from,
                                                           const runtime::SpawnWorker& order,
                                                           const std::string& run_directory,
                                                           const std::string& worker_api) {
  const auto found = running_.find(from);
  if (found == running_.end()) return NotFound("the process has ended");
  Result<WorkerOutput> output = OpenOutput(order.worker, run_directory);
  Result<Continued> continued = output.ok() ? PrepareContinued(order, worker_api, *output)
                                            : Result<Continued>(output.status());
  if (!continued.ok()) {
    Signal(from, SIGKILL);
    return continued;
  }
  const AttemptId next{order.worker.job, order.worker.attempt};
  const pid_t pid = found->second.pid;
  isolation_->Move({from.job, from.attempt}, next, pid);
  Unfollow(from);
  activity_.Forget(from);
  loop_.Unwatch(found->second.pidfd.get());
  Running old = std::move(found->second);
  running_.erase(found);
  LogLimit limit(std::move(output->log), attempts_.at(next).limits.log_bytes);
  output->stack_path = old.output.stack_path;  // the process has opened it
  const std::string log_path = output->log_path;
  const int watched = old.pidfd.get();
  running_.insert_or_assign(order.worker, Running{pid, std::move(old.pidfd), *std::move(output),
                                                  std::move(old.mark), std::move(limit)});
  loop_.Watch(watched, false, [this, worker = order.worker](bool, bool) { OnEnd(worker); });
  activity_.Watch(order.worker, pid, log_path, order.start->job().hang());
  Leave(from);
  report_(runtime::WorkerForked{order.worker, pid, "", false});
  return continued;
}

void WorkerLauncher::Signal(const runtime::WorkerId& worker, int signal) {
  const auto found = running_.find(worker);
  if (found == running_.end()) return;
  Running& process = found->second;
  if (signal == SIGTERM || signal == SIGKILL) {
    const Result<io::ProcessFacts> facts = io::ReadProcessFacts(process.pid);
    process.was_stopped = process.was_stopped || (facts.ok() && facts->state == 'T');
  }
  (void)io::SignalGroup(process.pid, signal);
}

std::optional<pid_t> WorkerLauncher::Pid(const runtime::WorkerId& worker) const {
  const auto found = running_.find(worker);
  return found == running_.end() ? std::nullopt : std::optional(found->second.pid);
}

std::string WorkerLauncher::StackFile(const runtime::WorkerId& worker) const {
  const auto found = running_.find(worker);
  return found == running_.end() ? std::string() : found->second.output.stack_path;
}

Result<std::string> WorkerLauncher::ReadStack(const std::string& path) const {
  const io::FileIdentity files(user());
  return ReadWorkerFile(path);
}

Status WorkerLauncher::WriteStacks(const std::string& path, const std::string& text) const {
  const io::FileIdentity files(user());
  return WriteWorkerFile(path, text);
}

bool WorkerLauncher::IsProcessOf(const runtime::WorkerId& worker, pid_t process) const {
  if (const std::optional<pid_t> own = Pid(worker)) return io::BelongsTo(process, *own);
  const std::optional<pid_t> server = fork_servers_.Process(worker.job);
  if (!server.has_value() || process == *server) return false;
  // Forked workers are children of this process, not of their fork server.
  const Result<io::ProcessFacts> facts = io::ReadProcessFacts(process);
  return facts.ok() && facts->parent == ::getpid() &&
         std::ranges::none_of(running_,
                              [&](const auto& entry) { return entry.second.pid == process; });
}

void WorkerLauncher::DropJob(const JobId& job) {
  EndIdle(job, UINT64_MAX);
  fork_servers_.Forget(job);
}

void WorkerLauncher::KillAll() {
  for (const auto& [worker, process] : running_) (void)io::SignalGroup(process.pid, SIGKILL);
}

}  // namespace longhaul::service
