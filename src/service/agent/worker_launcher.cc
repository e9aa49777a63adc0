#include "service/agent/worker_launcher.h"

#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <utility>

#include "io/files/file.h"
#include "io/process/process.h"
#include "io/process/process_tree.h"
#include "runtime/agent/worker_devices.h"
#include "runtime/rendezvous/torchrun.h"
#include "service/trainer_program.h"

namespace longhaul::service {
namespace {

// Orphans of an ended worker's group were sent SIGKILL: they end at once, as a rule.
constexpr Duration kReapAgain = std::chrono::milliseconds(20);
constexpr int kReapTries = 50;

constexpr char kSocketVariable[] = "LONGHAUL_AGENT_SOCKET";

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

Result<std::map<std::string, std::string>> EnvironmentOf(const runtime::SpawnWorker& order,
                                                         const std::string& error_file,
                                                         const std::string& worker_api,
                                                         const std::string& library,
                                                         const std::string& python_packages) {
  const proto::StartWorkers& start = *order.start;
  std::map<std::string, std::string> base = io::CurrentEnvironment();
  for (const auto& [name, value] : start.job().workload().environment()) base[name] = value;
  runtime::WorkerPlace place;
  place.node_rank = start.node_rank();
  place.nodes = start.nodes();
  place.first_rank = start.first_rank();
  place.local_rank = order.worker.rank - start.first_rank();
  place.local_ranks = start.local_ranks();
  place.world = start.world();
  place.master_address = start.master_address();
  place.master_port = static_cast<uint16_t>(start.master_port());
  place.restart_count = start.restart_count();
  place.max_restarts = start.job().max_restarts();
  // Named by --rdzv-id and --role.
  const auto& named = start.job().workload().environment();
  const auto run_id = named.find("TORCHELASTIC_RUN_ID");
  const auto role = named.find("ROLE_NAME");
  place.run_id = run_id == named.end() ? order.worker.job.value() : run_id->second;
  if (role != named.end()) place.role = role->second;
  place.error_file = error_file;
  place.torch_version = start.job().workload().torch_version();
  std::map<std::string, std::string> environment =
      runtime::WorkerEnvironment(place, std::move(base));
  environment[kSocketVariable] = worker_api;
  environment["LONGHAUL_ATTEMPT"] = std::to_string(order.worker.attempt);
  if (!library.empty()) environment.try_emplace("LONGHAUL_LIBRARY", library);
  if (!python_packages.empty()) {
    // Last, so that folders that the user names come first.
    std::string& path = environment["PYTHONPATH"];
    path += (path.empty() ? "" : ":") + python_packages;
  }
  // Python holds back what it writes to a file until there are 8 KiB of it: steps would come late.
  const bool reads_output = !start.job().workload().step_pattern().empty();
  if (reads_output) environment.try_emplace("PYTHONUNBUFFERED", "1");
  const std::vector<uint32_t> devices(start.devices().begin(), start.devices().end());
  const std::map<std::string, std::string> own(named.begin(), named.end());
  RETURN_IF_ERROR(runtime::agent::AssignDevices(devices, own, environment));
  return environment;
}

}  // namespace

WorkerLauncher::WorkerLauncher(io::EventLoop& loop, std::string trainer,
                               std::function<void(runtime::AgentInput)> report)
    : loop_(loop),
      trainer_(std::move(trainer)),
      report_(std::move(report)),
      follower_(loop, report_),
      silence_(loop, report_) {}

WorkerLauncher::~WorkerLauncher() {
  for (const auto& [group, timer] : reaping_) loop_.Cancel(timer);
  for (const auto& [mark, timer] : escaped_) loop_.Cancel(timer);
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
  fork_servers_.clear();
}

void WorkerLauncher::Spawn(const runtime::SpawnWorker& order, const std::string& run_directory,
                           const std::string& worker_api) {
  Result<WorkerOutput> output =
      OpenWorkerOutput(run_directory, order.worker.attempt, order.worker.rank);
  if (!output.ok()) return Fail(order.worker, output.status());
  Result<std::map<std::string, std::string>> environment =
      EnvironmentOf(order, output->error_path, worker_api, worker_library_, python_packages_);
  if (!environment.ok()) return Fail(order.worker, environment.status());
  if (order.start->job().workload().built_in()) {
    ForkWarm(order, run_directory, *environment, *std::move(output));
  } else {
    Execute(order, *std::move(environment), *std::move(output));
  }
}

void WorkerLauncher::Execute(const runtime::SpawnWorker& order,
                             std::map<std::string, std::string> environment, WorkerOutput output) {
  const proto::Workload& workload = order.start->job().workload();
  if (!workload.step_pattern().empty()) {
    const Status followed =
        follower_.Follow(order.worker, output.log_path, output.begin, workload.step_pattern());
    if (!followed.ok()) return Fail(order.worker, followed);
  }
  io::ProcessOptions options;
  options.argv = runtime::WorkerArgv({workload.command().begin(), workload.command().end()},
                                     order.worker.rank - order.start->first_rank());
  options.environment = std::move(environment);
  options.working_directory = workload.working_directory();
  options.stdout_fd = output.log.get();
  options.stderr_fd = output.log.get();
  options.signal_on_parent_death = SIGKILL;
  Mark mark;
  for (const char* name : {kSocketVariable, "RANK"}) {
    mark.push_back(std::string(name) + "=" + options.environment[name]);
  }
  Result<io::Process> process = io::Start(options);
  if (!process.ok()) {
    follower_.Finish(order.worker);
    return Fail(order.worker, process.status());
  }
  silence_.Watch(order.worker, process->pid, output.log_path);
  Adopt(order.worker, process->pid, std::move(process->pidfd), std::move(output), std::move(mark));
}

void WorkerLauncher::ForkWarm(const runtime::SpawnWorker& order, const std::string& run_directory,
                              const std::map<std::string, std::string>& environment,
                              WorkerOutput output) {
  const Result<ForkServerLink*> parent = ForkServer(order.worker.job, run_directory);
  if (!parent.ok()) return Fail(order.worker, parent.status());
  const int log = output.log.get();
  // Shared, because a function must be copyable; it has one owner all the same.
  auto kept = std::make_shared<WorkerOutput>(std::move(output));
  (*parent)->Fork(
      environment, log, [this, worker = order.worker, kept](const Result<int64_t>& pid) {
        if (!pid.ok()) return Fail(worker, pid.status());
        Result<io::Fd> pidfd = io::OpenPidfd(static_cast<pid_t>(*pid));
        if (!pidfd.ok()) return Fail(worker, pidfd.status());
        Adopt(worker, static_cast<pid_t>(*pid), *std::move(pidfd), std::move(*kept), Mark());
      });
}

Result<ForkServerLink*> WorkerLauncher::ForkServer(const JobId& job,
                                                   const std::string& run_directory) {
  std::unique_ptr<ForkServerLink>& parent = fork_servers_[job];
  if (parent == nullptr || !parent->alive()) {
    if (trainer_.empty()) return NoTrainer();
    const std::string logs = run_directory + "/logs";
    RETURN_IF_ERROR(io::PosixFileSystem().MakeDirectories(logs));
    ASSIGN_OR_RETURN(parent, ForkServerLink::Start(loop_, trainer_, logs + "/fork-server.log"));
  }
  return parent.get();
}

void WorkerLauncher::Adopt(const runtime::WorkerId& worker, pid_t pid, io::Fd pidfd,
                           WorkerOutput output, Mark mark) {
  output.log.Reset();  // the worker has its own
  const int watched = pidfd.get();
  running_.insert_or_assign(worker,
                            Running{pid, std::move(pidfd), std::move(output), std::move(mark)});
  loop_.Watch(watched, false, [this, worker](bool, bool) { OnEnd(worker); });
  report_(runtime::WorkerForked{worker, pid, "", false});
}

void WorkerLauncher::Fail(const runtime::WorkerId& worker, const Status& reason) {
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
  ReapGroup(process.pid, kReapTries);
  if (!process.mark.empty()) KillEscaped(process.mark, {}, kReapTries);
  silence_.Forget(worker);
  follower_.Finish(worker);

  runtime::WorkerGone gone;
  gone.worker = worker;
  if (status.ok()) {
    gone.exit_code = status->exit_code;
    gone.signal = status->signal;
  }
  if (gone.exit_code != 0 && gone.signal != SIGKILL) {  // SIGKILL leaves no time for last words
    LastWords words = ReadLastWords(process.output);
    gone.message = std::move(words.message);
    gone.error_at_ns = words.error_at_ns;
  }
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
void WorkerLauncher::KillEscaped(const Mark& mark, std::vector<pid_t> killed, int tries) {
  escaped_.erase(mark);
  // One that has ended has no environment, and so is not found a second time.
  std::erase_if(killed, [](pid_t child) { return waitpid(child, nullptr, WNOHANG) != 0; });
  for (const pid_t child : KillChildrenWith(mark)) {
    if (std::ranges::find(killed, child) == killed.end()) killed.push_back(child);
  }
  if (killed.empty() || tries == 0) return;
  escaped_[mark] = loop_.After(
      kReapAgain, [this, mark, killed, tries] { KillEscaped(mark, killed, tries - 1); });
}

void WorkerLauncher::Signal(const runtime::WorkerId& worker, int signal) {
  const auto found = running_.find(worker);
  if (found != running_.end()) (void)io::SignalGroup(found->second.pid, signal);
}

std::optional<pid_t> WorkerLauncher::Pid(const runtime::WorkerId& worker) const {
  const auto found = running_.find(worker);
  return found == running_.end() ? std::nullopt : std::optional(found->second.pid);
}

bool WorkerLauncher::IsProcessOf(const runtime::WorkerId& worker, pid_t process) const {
  if (const std::optional<pid_t> own = Pid(worker)) return io::BelongsTo(process, *own);
  const auto server = fork_servers_.find(worker.job);
  if (server == fork_servers_.end() || process == server->second->pid()) return false;
  // Forked workers are children of this process, not of their fork server.
  const Result<io::ProcessFacts> facts = io::ReadProcessFacts(process);
  return facts.ok() && facts->parent == ::getpid() &&
         std::ranges::none_of(running_,
                              [&](const auto& entry) { return entry.second.pid == process; });
}

void WorkerLauncher::DropJob(const JobId& job) {
  const auto found = fork_servers_.find(job);
  if (found == fork_servers_.end()) return;
  // Later, because an answer of this very parent may have brought us here.
  loop_.Post([parent = std::shared_ptr<ForkServerLink>(std::move(found->second))] {});
  fork_servers_.erase(found);
}

void WorkerLauncher::KillAll() {
  for (const auto& [worker, process] : running_) (void)io::SignalGroup(process.pid, SIGKILL);
}

}  // namespace longhaul::service
