#include "frontend/embedded_cluster.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <utility>

#include "base/check.h"
#include "base/text.h"
#include "io/clock.h"
#include "io/files/file.h"
#include "service/agent/snapshot_keeper/snapshot_keeper.h"

namespace longhaul::frontend {
namespace {

constexpr Duration kEndpointPoll = std::chrono::milliseconds(10);
constexpr uint64_t kLargestLog = 64 << 20;
constexpr size_t kTailLines = 12;
constexpr Duration kLauncherGrace = std::chrono::seconds(30);  // for agents on other machines
constexpr int kLockFd = 3;                                     // in the children

std::string HowItEnded(const io::ExitStatus& status) {
  if (status.signal != 0) {
    const char* name = sigabbrev_np(status.signal);
    return "was killed by SIG" + std::string(name != nullptr ? name : "?");
  }
  return "exited with code " + std::to_string(status.exit_code);
}

bool IsSnapshotKeeper(const std::string& pid) {
  const Result<std::string> name = io::ReadText("/proc/" + pid + "/comm", 64);
  return name.ok() && Trim(*name) == service::kSnapshotKeeperProcessName;
}

// The host and port of "http://HOST:PORT".
std::string WithoutScheme(const std::string& url) {
  const size_t scheme = url.find("://");
  return scheme == std::string::npos ? url : url.substr(scheme + 3);
}

}  // namespace

EmbeddedCluster::EmbeddedCluster(io::EventLoop& loop, ClusterOptions options,
                                 ClusterObserver observer)
    : loop_(loop), options_(std::move(options)), observer_(std::move(observer)) {
  CHECK(options_.agents >= 1);
  controller_.name = "controller";
  if (options_.launcher != nullptr) {
    Child& command = agents_.emplace_back();
    command.name = "agents";
    command.number = 1;
    return;
  }
  for (uint32_t number = 1; number <= options_.agents; ++number) {
    Child agent;
    agent.name = "node-" + std::to_string(number);
    agent.number = number;
    agents_.push_back(std::move(agent));
  }
}

EmbeddedCluster::~EmbeddedCluster() { KillNow(); }

Status EmbeddedCluster::Start() {
  CHECK(phase_ == Phase::kNew);
  RETURN_IF_ERROR(io::BecomeSubreaper());
  if (options_.launcher != nullptr) {
    RETURN_IF_ERROR(options_.launcher->Prepare(options_.directory));
  }
  phase_ = Phase::kStarting;
  RETURN_IF_ERROR(StartController());
  AwaitEndpoint(io::MonotonicNow() + options_.start_limit);
  return Status();
}

Status EmbeddedCluster::StartChild(Child& child, const std::string& program,
                                   std::vector<std::string> argv) {
  const std::string log_path = options_.directory + "/" + child.name + ".log";
  const io::Fd log(open(log_path.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644));
  if (!log.valid()) return FromErrno(errno, "cannot write " + log_path);
  io::ProcessOptions process;
  process.argv = std::move(argv);
  process.program = program;
  process.environment = io::CurrentEnvironment();
  process.stdout_fd = log.get();
  process.stderr_fd = log.get();
  if (options_.lock_fd >= 0) process.inherited = {{options_.lock_fd, kLockFd}};
  ASSIGN_OR_RETURN(child.process, io::Start(process));
  loop_.Watch(child.process.pidfd.get(), false, [this, &child](bool, bool) { OnDeath(child); });
  return Status();
}

Status EmbeddedCluster::StartController() {
  const bool first = endpoint_.rest.empty();
  const std::string address =
      options_.launcher == nullptr ? "127.0.0.1" : options_.launcher->address();
  const uint16_t port = options_.launcher == nullptr ? 0 : options_.launcher->rest_port();
  const auto at = [&address](uint16_t number) { return address + ":" + std::to_string(number); };
  const std::string rest = first ? at(port) : WithoutScheme(endpoint_.rest);
  const std::string agents =
      first ? at(port == 0 ? port : static_cast<uint16_t>(port + 1)) : endpoint_.agents;
  // The first word is what lists of processes show; the program may be named by a link in /proc.
  std::vector<std::string> words = {"longhaul", "controller"};
  if (options_.launcher != nullptr) words = options_.launcher->ControllerWords();
  for (const std::string& word :
       {std::string("--state-dir"), options_.directory, std::string("--rest"), rest,
        std::string("--agents"), agents, std::string("--parent"), std::to_string(getpid())}) {
    words.push_back(word);
  }
  return StartChild(controller_, options_.program, std::move(words));
}

Status EmbeddedCluster::StartLaunchedAgents(Child& command) {
  ASSIGN_OR_RETURN(std::vector<std::string> argv, options_.launcher->Command(endpoint_));
  if (argv.empty()) return {};
  return StartChild(command, "", std::move(argv));
}

void EmbeddedCluster::StartAgent(Child& agent) {
  if (options_.launcher != nullptr) {
    const Status launched = StartLaunchedAgents(agent);
    if (!launched.ok()) Fail(launched.WithContext("starting the agents"));
    return;
  }
  // The same for all lives: what the one before left in memory is found there.
  const std::string state_directory = options_.directory + "/" + agent.name;
  Status started = io::PosixFileSystem().MakeDirectories(state_directory);
  if (started.ok()) {
    started = StartChild(
        agent, options_.program,
        {"longhaul", "agent", "--controller", endpoint_.agents, "--token-file",
         endpoint_.token_file, "--node", agent.name, "--slots", std::to_string(options_.slots),
         "--state-dir", state_directory, "--parent", std::to_string(getpid())});
  }
  if (!started.ok()) Fail(started.WithContext("starting " + agent.name));
}

// The controller replaces endpoint.json once it listens: what names its pid is new.
void EmbeddedCluster::AwaitEndpoint(Instant deadline) {
  if (phase_ != Phase::kStarting && phase_ != Phase::kRunning) return;
  const Result<service::Endpoint> found =
      service::ReadEndpoint(options_.directory + "/endpoint.json");
  if (found.ok() && found->pid == controller_.process.pid) {
    const bool first = phase_ == Phase::kStarting;
    endpoint_ = *found;
    phase_ = Phase::kRunning;
    if (!first) {
      if (observer_.on_restarted) observer_.on_restarted(endpoint_);
      return;
    }
    for (Child& agent : agents_) {
      if (phase_ == Phase::kRunning) StartAgent(agent);
    }
    if (phase_ == Phase::kRunning && observer_.on_ready) observer_.on_ready(endpoint_);
    return;
  }
  if (io::MonotonicNow() > deadline) {
    return Fail(DeadlineExceeded("the controller was not ready after " +
                                 ToString(options_.start_limit) + LogTail(controller_)));
  }
  const pid_t pid = controller_.process.pid;
  timers_.push_back(loop_.After(kEndpointPoll, [this, deadline, pid] {
    if (controller_.process.pid == pid) AwaitEndpoint(deadline);  // else its successor is awaited
  }));
}

void EmbeddedCluster::OnDeath(Child& child) {
  loop_.Unwatch(child.process.pidfd.get());
  const Result<io::ExitStatus> status = io::Reap(child.process.pidfd);
  child.process = io::Process();
  const std::string how = status.ok() ? HowItEnded(*status) : status.status().message();
  if (phase_ == Phase::kStopping) {
    StopNext();
    return;
  }
  if (phase_ == Phase::kEnded) return;
  deaths_.push_back(io::MonotonicNow());
  if (child.number == 0) {
    OnControllerDeath(how);
  } else {
    OnAgentDeath(child, how);
  }
}

bool EmbeddedCluster::TooManyDeaths() {
  while (deaths_.back() - deaths_.front() > options_.deaths_window) deaths_.pop_front();
  return deaths_.size() >= options_.deaths_allowed;
}

void EmbeddedCluster::OnControllerDeath(const std::string& how) {
  // One that never listened won't do so on a second try either: a port in use, a full disk.
  if (phase_ == Phase::kStarting || TooManyDeaths()) {
    return Fail(Unavailable("the controller " + how + LogTail(controller_)));
  }
  const Status started = StartController();
  if (!started.ok()) return Fail(started.WithContext("starting the controller again"));
  if (observer_.on_event) observer_.on_event("the controller " + how + "; started again");
  AwaitEndpoint(io::MonotonicNow() + options_.start_limit);
}

void EmbeddedCluster::OnAgentDeath(Child& agent, const std::string& how) {
  KillOrphans(SnapshotKeepers::kSpared);  // the next agent takes what they keep
  if (TooManyDeaths()) {
    return Fail(Unavailable("the agent of " + agent.name + " " + how + LogTail(agent)));
  }
  if (observer_.on_event) {
    observer_.on_event(options_.launcher != nullptr
                           ? "the command that starts the agents " + how +
                                 "; it is started again in " + ToString(options_.replacement_delay)
                           : "the agent of " + agent.name + " " + how +
                                 "; a new agent takes its place in " +
                                 ToString(options_.replacement_delay));
  }
  timers_.push_back(loop_.After(options_.replacement_delay, [this, &agent] {
    if (phase_ == Phase::kRunning && agent.process.pid == 0) StartAgent(agent);
  }));
}

void EmbeddedCluster::Fail(const Status& reason) {
  if (phase_ == Phase::kEnded) return;
  KillNow();
  if (observer_.on_failed) observer_.on_failed(reason);
}

void EmbeddedCluster::Stop(std::function<void()> done) {
  on_stopped_ = std::move(done);
  if (phase_ == Phase::kNew || phase_ == Phase::kEnded) {
    if (on_stopped_) std::exchange(on_stopped_, nullptr)();
    return;
  }
  phase_ = Phase::kStopping;
  for (Child& agent : agents_) {
    // A launcher has been told of the end, and ends its agents in order.
    if (agent.process.pid != 0 && options_.launcher == nullptr) {
      (void)io::Signal(agent.process.pidfd, SIGTERM);
    }
  }
  const Duration grace = options_.launcher == nullptr ? options_.stop_grace : kLauncherGrace;
  timers_.push_back(loop_.After(grace, [this] {
    if (phase_ != Phase::kStopping) return;
    KillNow();
    if (on_stopped_) std::exchange(on_stopped_, nullptr)();
  }));
  StopNext();
}

void EmbeddedCluster::StopNext() {
  if (AgentsRun()) return;
  if (controller_.process.pid != 0) {
    (void)io::Signal(controller_.process.pidfd, SIGTERM);
    return;
  }
  KillNow();
  if (on_stopped_) std::exchange(on_stopped_, nullptr)();
}

void EmbeddedCluster::KillChild(Child& child) {
  if (child.process.pid == 0) return;
  loop_.Unwatch(child.process.pidfd.get());
  (void)io::Signal(child.process.pidfd, SIGKILL);
  (void)io::Reap(child.process.pidfd);
  child.process = io::Process();
}

void EmbeddedCluster::KillNow() {
  if (phase_ == Phase::kNew || phase_ == Phase::kEnded) return;
  phase_ = Phase::kEnded;
  for (const io::EventLoop::TimerId timer : timers_) loop_.Cancel(timer);
  timers_.clear();
  for (Child& agent : agents_) KillChild(agent);
  KillChild(controller_);
  KillOrphans(SnapshotKeepers::kKilled);
}

// Children of dead descendants are now children of this process: all child processes that the
// cluster has not started. Killing some may add their children, so it repeats until there are none.
void EmbeddedCluster::KillOrphans(SnapshotKeepers snapshot_keepers) {
  constexpr int kGenerations = 16;
  const std::vector<pid_t> known = pids();
  for (int i = 0; i < kGenerations; ++i) {
    const auto entries = io::PosixFileSystem().List("/proc");
    if (!entries.ok()) return;
    std::vector<io::Fd> orphans;
    for (const std::string& entry : *entries) {
      const Result<int64_t> number = ParseInt64(entry);
      if (!number.ok()) continue;
      const auto pid = static_cast<pid_t>(*number);
      const Result<io::ProcessFacts> facts = io::ReadProcessFacts(pid);
      if (!facts.ok() || facts->parent != getpid()) continue;
      if (std::find(known.begin(), known.end(), pid) != known.end()) continue;
      if (options_.is_foreign && options_.is_foreign(pid)) continue;
      if (snapshot_keepers == SnapshotKeepers::kSpared && IsSnapshotKeeper(entry)) continue;
      Result<io::Fd> pidfd = io::OpenPidfd(pid);
      if (pidfd.ok()) orphans.push_back(*std::move(pidfd));
    }
    if (orphans.empty()) return;
    for (const io::Fd& orphan : orphans) (void)io::Signal(orphan, SIGKILL);
    for (const io::Fd& orphan : orphans) (void)io::Reap(orphan);
  }
}

std::string EmbeddedCluster::LogTail(const Child& child) const {
  const std::string path = options_.directory + "/" + child.name + ".log";
  const Result<std::string> text = io::ReadText(path, kLargestLog);
  if (!text.ok() || Trim(*text).empty()) return "; it wrote nothing to " + path;
  const std::vector<std::string_view> lines = Split(Trim(*text), '\n');
  const size_t first = lines.size() > kTailLines ? lines.size() - kTailLines : 0;
  std::string tail = "; the end of " + path + ":";
  for (size_t i = first; i < lines.size(); ++i) tail += "\n  " + std::string(lines[i]);
  return tail;
}

bool EmbeddedCluster::AgentsRun() const {
  return std::any_of(agents_.begin(), agents_.end(),
                     [](const Child& agent) { return agent.process.pid != 0; });
}

std::vector<pid_t> EmbeddedCluster::pids() const {
  std::vector<pid_t> pids = {controller_.process.pid};
  for (const Child& agent : agents_) {
    if (agent.process.pid != 0) pids.push_back(agent.process.pid);
  }
  return pids;
}

}  // namespace longhaul::frontend
