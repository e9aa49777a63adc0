#include "frontend/run_session.h"

#include <sys/signalfd.h>
#include <sys/utsname.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <memory>
#include <thread>
#include <utility>

#include "base/format.h"
#include "base/text.h"
#include "frontend/artefacts.h"
#include "frontend/controller_link.h"
#include "frontend/embedded_cluster.h"
#include "frontend/report/report.h"
#include "frontend/report/report_json.h"
#include "frontend/report/report_summary.h"
#include "frontend/run_directory.h"
#include "frontend/run_disk.h"
#include "frontend/run_history.h"
#include "frontend/run_hooks.h"
#include "frontend/run_screen.h"
#include "frontend/tensorboard/tensorboard_file.h"
#include "frontend/terminal.h"
#include "frontend/worker_logs.h"
#include "io/clock.h"
#include "io/event_loop.h"
#include "io/files/file.h"
#include "io/files/private_files.h"
#include "proto/json.h"
#include "service/client/endpoint.h"
#include "service/notify/hook_file.h"
#include "service/trainer_program.h"
#include "spec/notify/notify_file.h"

namespace longhaul::frontend {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

constexpr int kExitOk = 0;
constexpr int kExitFailure = 1;
constexpr int kExitUsage = 2;
constexpr int kExitSignal = 128;

constexpr Duration kOutputPeriod = milliseconds(100);
// A job that must stop writes its last snapshot; after this time it is killed.
constexpr Duration kStopLimit = seconds(60);
constexpr uint32_t kMostWorkers = 64;  // a cluster made to measure for a job, on one machine
constexpr uint32_t kUsualNodes = 2;
constexpr uint32_t kUsualSlots = 2;
constexpr const char* kSharedEndpoint = "runs/endpoint.json";

void PrintError(const Status& status) {
  std::fprintf(stderr, "longhaul: %s\n", status.message().c_str());
}

sigset_t WatchedSignals() {
  sigset_t set;
  sigemptyset(&set);
  // SIGUSR1 is what a batch system sends before its time limit.
  for (const int signal : {SIGINT, SIGTERM, SIGHUP, SIGUSR1, SIGWINCH}) sigaddset(&set, signal);
  return set;
}

// The size of the embedded cluster: the requested one, else large enough for the job.
struct ClusterSize {
  uint32_t nodes = kUsualNodes;
  uint32_t slots = kUsualSlots;
};

Result<ClusterSize> SizeFor(const RunOptions& options, const spec::JobSpec& job) {
  const uint32_t wants_nodes = job.resources.nodes.value_or(1);
  const uint32_t wants_slots = job.resources.processes_per_node.value_or(1);
  ClusterSize size;
  size.nodes = options.cluster_nodes.value_or(std::max(kUsualNodes, wants_nodes));
  size.slots = options.cluster_slots.value_or(std::max(kUsualSlots, wants_slots));
  const uint32_t needs_nodes = job.resources.minimum_nodes.value_or(wants_nodes);
  if (needs_nodes > size.nodes || wants_slots > size.slots) {
    return InvalidArgument("the job wants " + Plural(needs_nodes, "node") + " with " +
                           Plural(wants_slots, "worker") + " each, the local cluster has " +
                           Plural(size.nodes, "node") + " with " + Plural(size.slots, "slot") +
                           ": raise --cluster-nodes and --cluster-slots, or ask for less");
  }
  if (options.launcher == nullptr && uint64_t{size.nodes} * size.slots > kMostWorkers) {
    return InvalidArgument("a local cluster of " + Plural(size.nodes, "node") + " with " +
                           Plural(size.slots, "slot") + " is more than the " +
                           std::to_string(kMostWorkers) +
                           " workers that one machine is given: name a real one with --controller");
  }
  return size;
}

const char* KindName(const proto::Notification& notification) {
  const auto* field = notification.GetDescriptor()->FindFieldByNumber(notification.kind_case());
  return field == nullptr ? "unknown" : field->name().c_str();
}

// Of the job.
bool IsEnd(const proto::Notification& notification) {
  if (notification.kind_case() != proto::Notification::kState) return false;
  const proto::JobState state = notification.state().state();
  return state == proto::SUCCEEDED || state == proto::FAILED || state == proto::STOPPED;
}

EarlierJob EarlierJobOf(const RunOptions& options) {
  if (options.launcher == nullptr) return EarlierJob::kNone;
  switch (options.launcher->earlier_cluster()) {
    case AgentLauncher::EarlierCluster::kNone:
      return EarlierJob::kNone;
    case AgentLauncher::EarlierCluster::kSameJob:
      return EarlierJob::kContinue;
    case AgentLauncher::EarlierCluster::kOtherJob:
      return EarlierJob::kReplace;
  }
  return EarlierJob::kNone;
}

RunScreenOptions ScreenOptionsOf(const RunOptions& options, const spec::JobSpec& job,
                                 Instant began) {
  RunScreenOptions screen;
  screen.job = job.name;
  screen.began = began;
  screen.is_command = !job.built_in();
  screen.json = options.json;
  screen.quiet = options.quiet;
  screen.local_ranks = job.resources.processes_per_node.value_or(1);
  screen.silent_local_ranks = options.silent_local_ranks;
  screen.line_prefix = options.line_prefix;
  screen.role = options.role;
  return screen;
}

class Session {
 public:
  Session(const RunOptions& options, spec::JobSpec job, RunDirectory directory,
          std::unique_ptr<io::EventLoop> loop, const std::vector<spec::HookSpec>& hooks);

  int Run(ClusterSize size);

 private:
  Status StartCluster(ClusterSize size);
  Status WatchSignals();
  void OnSignal();
  void AskToStop(int signal);
  void OnClusterReady(const service::Endpoint& endpoint, uint32_t nodes);
  void ShareEndpoint(const service::Endpoint& endpoint);
  void OnNotification(const proto::Notification& notification, const nlohmann::ordered_json& json);
  void ShowMessage(proto::MessageNotification::Severity severity, const std::string& text);
  void OnOver(const proto::JobStatus& status);
  void Fail(const Status& reason);
  void End();  // stops what runs, then the loop
  void OnDisk(bool full);
  void FollowOutput();
  int Finish();
  RunFacts Facts() const;

  const RunOptions options_;
  const spec::JobSpec job_;
  const RunDirectory directory_;
  const Instant began_ = io::MonotonicNow();
  const Instant began_at_ = io::Now();
  std::unique_ptr<io::EventLoop> loop_;
  io::Fd signals_;
  RunScreen screen_;
  RunHistory history_;
  WorkerLogs output_;
  RunHooks hooks_;
  std::vector<HookRow> hook_rows_;
  std::unique_ptr<EmbeddedCluster> cluster_;
  std::unique_ptr<ControllerLink> link_;
  std::ofstream events_;
  TensorBoardFile tensorboard_;
  bool shared_endpoint_ = false;
  std::string token_file_;  // the cluster's, names it among endpoints

  Instant ready_at_{};
  Instant submitted_at_{};
  Instant over_at_{};
  double load_average_ = 0;
  std::string job_id_;
  bool continues_ = false;  // an earlier front end submitted it
  std::optional<proto::JobStatus> final_;
  Status failure_;
  int signal_ = 0;
  bool ending_ = false;
};

Session::Session(const RunOptions& options, spec::JobSpec job, RunDirectory directory,
                 std::unique_ptr<io::EventLoop> loop, const std::vector<spec::HookSpec>& hooks)
    : options_(options),
      job_(std::move(job)),
      directory_(std::move(directory)),
      loop_(std::move(loop)),
      screen_(*loop_, ScreenOptionsOf(options_, job_, began_at_)),
      output_(directory_.path),
      hooks_(*loop_, hooks, directory_.path,
             [this](const std::string& line) {
               ShowMessage(proto::MessageNotification::WARNING, line);
             }),
      events_(directory_.path + "/events.jsonl", std::ios::app),
      tensorboard_(directory_.path) {
  if (getloadavg(&load_average_, 1) != 1) load_average_ = 0;
}

Status Session::WatchSignals() {
  const sigset_t set = WatchedSignals();
  signals_ = io::Fd(signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK));
  if (!signals_.valid()) return FromErrno(errno, "cannot watch signals");
  loop_->Watch(signals_.get(), false, [this](bool, bool) { OnSignal(); });
  return Status();
}

void Session::OnSignal() {
  signalfd_siginfo info{};
  while (read(signals_.get(), &info, sizeof(info)) == static_cast<ssize_t>(sizeof(info))) {
    const int signal = static_cast<int>(info.ssi_signo);
    if (signal == SIGWINCH) {
      screen_.DrawSoon();
    } else {
      AskToStop(signal);
    }
  }
}

// The first time the job is stopped in order, the second time all is killed at once.
void Session::AskToStop(int signal) {
  if (signal_ != 0) {
    if (options_.launcher != nullptr) options_.launcher->End();
    if (cluster_ != nullptr) cluster_->KillNow();
    failure_ = CancelledError("killed on request; the newest checkpoint in " + directory_.path +
                              " is whole, --resume continues from it");
    ending_ = true;
    screen_.StopClock();
    return loop_->Stop();
  }
  signal_ = signal;
  if (job_id_.empty()) {
    failure_ = CancelledError("stopped before the job was submitted");
    return End();
  }
  if (ending_) return;
  ShowMessage(proto::MessageNotification::INFO,
              "stopping the job with a last snapshot; once more Ctrl-C kills it at once");
  link_->StopJob(job_id_, "stopped by signal " + std::to_string(signal));
  loop_->After(kStopLimit, [this] {
    if (ending_) return;
    Fail(DeadlineExceeded("the job did not stop within " + ToString(kStopLimit)));
  });
}

Status Session::StartCluster(ClusterSize size) {
  ClusterOptions cluster;
  const bool again = options_.launcher != nullptr &&
                     options_.launcher->earlier_cluster() != AgentLauncher::EarlierCluster::kNone;
  ASSIGN_OR_RETURN(cluster.directory, again ? KeepClusterDirectory(directory_.path)
                                            : MakeClusterDirectory(directory_.path));
  cluster.program = "/proc/self/exe";
  cluster.lock_fd = directory_.lock.fd();
  cluster.is_foreign = [this](pid_t process) { return hooks_.Owns(process); };
  cluster.agents = size.nodes;
  cluster.slots = size.slots;
  cluster.replacement_delay = options_.replacement_delay;
  cluster.launcher = options_.launcher;
  ClusterObserver observer;
  observer.on_ready = [this, size](const service::Endpoint& endpoint) {
    OnClusterReady(endpoint, size.nodes);
  };
  observer.on_restarted = [this](const service::Endpoint& endpoint) {
    ShareEndpoint(endpoint);
    ShowMessage(proto::MessageNotification::INFO, "the controller is back with its whole state");
  };
  observer.on_event = [this](const std::string& text) {
    ShowMessage(proto::MessageNotification::WARNING, text);
  };
  observer.on_failed = [this](const Status& reason) { Fail(reason); };
  cluster_ = std::make_unique<EmbeddedCluster>(*loop_, cluster, observer);
  return cluster_->Start();
}

void Session::OnClusterReady(const service::Endpoint& endpoint, uint32_t nodes) {
  ready_at_ = io::MonotonicNow();
  if (cluster_ != nullptr) ShareEndpoint(endpoint);
  if (options_.launcher != nullptr) {
    options_.launcher->Begin(*loop_, [this](const std::string& text) {
      ShowMessage(proto::MessageNotification::WARNING, text);
    });
  }
  Submission submission;
  submission.job = spec::ToJson(job_);
  submission.source = options_.job.file.empty() ? "the command" : options_.job.file;
  submission.run_directory = directory_.path;
  submission.resume = options_.resume;
  submission.from = WholePlace(options_.from);
  submission.nodes = nodes;
  if (options_.launcher != nullptr) {
    submission.nodes_limit = options_.launcher->agents_limit();
    if (const std::optional<uint32_t> awaited = options_.launcher->awaited_agents()) {
      submission.nodes = *awaited;
      submission.nodes_limit.reset();
    }
  }
  submission.earlier = EarlierJobOf(options_);
  LinkObserver observer;
  observer.on_page = [this](const std::string& address) { screen_.ShowPage(address); };
  observer.on_submitted = [this](const SubmittedJob& job, Instant at) {
    job_id_ = job.id;
    submitted_at_ = at;
    continues_ = job.continues;
    if (!job.plan_reason.empty())
      ShowMessage(proto::MessageNotification::INFO, "plan: " + job.plan_reason);
    screen_.DrawSoon();
  };
  observer.on_notification = [this](const proto::Notification& notification,
                                    const service::FeedEvent& event, Instant at) {
    if (IsEnd(notification)) over_at_ = at;
    OnNotification(notification, event.data);
  };
  observer.on_connection = [this](bool connected, const std::string& reason) {
    if (cluster_ != nullptr) return;  // its own supervision reports more
    ShowMessage(connected ? proto::MessageNotification::INFO : proto::MessageNotification::WARNING,
                connected ? "the controller answers again" : reason);
  };
  observer.on_over = [this](const proto::JobStatus& status) { OnOver(status); };
  observer.on_failed = [this](const Status& reason) { Fail(reason); };
  link_ = std::make_unique<ControllerLink>(*loop_, endpoint, submission, observer);
}

// So that `longhaul status` in another terminal finds this cluster; unless another one lives there.
void Session::ShareEndpoint(const service::Endpoint& endpoint) {
  token_file_ = endpoint.token_file;
  const Result<service::Endpoint> present = service::ReadEndpoint(kSharedEndpoint);
  const bool lives = present.ok() && present->token_file != endpoint.token_file &&
                     present->pid > 0 && kill(static_cast<pid_t>(present->pid), 0) == 0;
  if (lives) return;
  shared_endpoint_ = service::WriteEndpoint(kSharedEndpoint, endpoint).ok();
}

void Session::OnNotification(const proto::Notification& notification,
                             const nlohmann::ordered_json& json) {
  screen_.ShowOutput(output_.Read());  // the workers' last lines come before the report about them
  if (notification.kind_case() == proto::Notification::kAttempt) {
    if (!job_.built_in())
      output_.Follow(notification.attempt().attempt(), notification.attempt().world());
  }
  history_.Take(notification);
  hooks_.Take(notification);
  tensorboard_.Take(notification);
  nlohmann::ordered_json typed = {{"type", KindName(notification)}};
  typed.update(json);
  const std::string line =
      typed.dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace) + "\n";
  events_ << line << std::flush;
  screen_.Take(notification, line);
}

void Session::ShowMessage(proto::MessageNotification::Severity severity, const std::string& text) {
  proto::Notification notification;
  notification.set_at_ns(ToNanoseconds(io::Now()));
  notification.set_job_id(job_id_);
  notification.mutable_message()->set_severity(severity);
  notification.mutable_message()->set_text(text);
  OnNotification(notification, proto::ToJson(notification));
}

void Session::OnDisk(bool full) {
  if (ending_) return;
  ShowMessage(full ? proto::MessageNotification::WARNING : proto::MessageNotification::INFO,
              full ? "the disk of " + directory_.path +
                         " is full: make room, and the job continues by itself"
                   : "the disk of " + directory_.path + " has room again");
}

// A command's output is shown as a launcher's user expects it; the built-in trainer's adds nothing
// to the view.
void Session::FollowOutput() {
  if (ending_) return;
  screen_.ShowOutput(output_.Read());
  loop_->After(kOutputPeriod, [this] { FollowOutput(); });
}

void Session::OnOver(const proto::JobStatus& status) {
  if (over_at_ == Instant{}) over_at_ = io::MonotonicNow();
  final_ = status;
  End();
}

void Session::Fail(const Status& reason) {
  if (ending_) return;
  failure_ = reason;
  End();
}

void Session::End() {
  if (ending_) return;
  ending_ = true;
  screen_.StopClock();
  if (options_.launcher != nullptr) options_.launcher->End();
  if (cluster_ == nullptr) return loop_->Stop();
  cluster_->Stop([this] { loop_->Stop(); });
}

RunFacts Session::Facts() const {
  RunFacts facts;
  facts.version = LONGHAUL_VERSION;
  facts.command_line = options_.command_line;
  facts.run_directory = directory_.path;
  utsname name{};
  if (uname(&name) == 0) facts.host = name.nodename;
  facts.processor = ProcessorName();
  facts.cores = std::thread::hardware_concurrency();
  facts.load_average = load_average_;
  facts.started_at_ns = ToNanoseconds(began_at_);
  facts.cluster_seconds = ToSeconds(ready_at_ - began_);
  facts.preparing_seconds = ToSeconds(submitted_at_ - ready_at_);
  facts.job_seconds = ToSeconds(over_at_ - submitted_at_);
  if (final_.has_value() && final_->ended_at_ns() != 0) {
    // This process's wall clock at both ends, held against the controller's.
    const auto late = [this](Instant at, int64_t controller_ns) {
      const Instant wall = began_at_ + (at - began_);
      return std::abs(ToSeconds(wall - InstantFromNanoseconds(controller_ns)));
    };
    facts.notification_delay_seconds = late(over_at_, final_->ended_at_ns());
    if (continues_) {
      // Submitted before this process began: its clock checks the end alone.
      const Instant over = began_at_ + (over_at_ - began_);
      facts.job_seconds = ToSeconds(over - InstantFromNanoseconds(final_->submitted_at_ns()));
    } else {
      facts.notification_delay_seconds += late(submitted_at_, final_->submitted_at_ns());
    }
  }
  facts.hooks = hook_rows_;
  facts.process_seconds = ToSeconds(io::MonotonicNow() - began_);
  return facts;
}

int Session::Run(ClusterSize size) {
  Status started = WatchSignals();
  if (started.ok() && options_.controller.empty()) {
    started = StartCluster(size);
  } else if (started.ok()) {
    const Result<service::Endpoint> endpoint =
        service::FindEndpoint({options_.controller, options_.token_file, options_.ca_file});
    if (endpoint.ok()) OnClusterReady(*endpoint, 0);
    started = endpoint.status();
  }
  if (!started.ok()) {
    PrintError(started);
    return kExitFailure;
  }
  if (!options_.json && !options_.quiet) {
    WriteOut("longhaul: " + job_.name + " in " + directory_.path + "\n");
  }
  screen_.DrawSoon();
  if (!job_.built_in()) FollowOutput();
  const DiskWatch disk(*loop_, directory_.path, [this](bool full) { OnDisk(full); });
  loop_->Run();
  return Finish();
}

int Session::Finish() {
  // A user who has asked twice for the end does not wait for hooks.
  hook_rows_ = hooks_.Finish(failure_.code() == Code::kCancelled);
  screen_.ShowOutput(output_.ReadRest());
  screen_.Finish();
  if (cluster_ != nullptr) cluster_->KillNow();  // also frees a submission that still waits
  link_.reset();
  if (shared_endpoint_) {
    const Result<service::Endpoint> present = service::ReadEndpoint(kSharedEndpoint);
    if (present.ok() && present->token_file == token_file_) {
      (void)io::PosixFileSystem().Remove(kSharedEndpoint);
    }
  }
  if (final_.has_value()) {
    const Report report = MakeReport(*final_, history_, Facts());
    const Status written = WriteArtefacts(directory_.path, report, history_);
    if (!written.ok()) PrintError(written.WithContext("the report is not complete"));
    if (options_.json) {
      nlohmann::ordered_json line = {{"type", "report"}};
      line.update(ReportJson(report));
      WriteOut(line.dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace) + "\n");
    } else {
      std::string text;
      for (const std::string& each : Summary(report, TerminalStyle())) text += each + "\n";
      WriteOut(text);
    }
  }
  const bool missed = final_.has_value() && final_->state() == proto::SUCCEEDED &&
                      final_->faults_to_come_size() > 0;
  if (missed && failure_.ok()) {
    const auto faults = static_cast<uint64_t>(final_->faults_to_come_size());
    failure_ = Unavailable("the job succeeded, but " + Plural(faults, "planned fault") +
                           " did not happen: see 'not injected' above, or the report");
  }
  if (!failure_.ok()) PrintError(failure_);
  if (signal_ != 0) return kExitSignal + signal_;
  if (!failure_.ok()) {
    return failure_.code() == Code::kInvalidArgument ? kExitUsage : kExitFailure;
  }
  return final_->state() == proto::SUCCEEDED ? kExitOk : kExitFailure;
}

}  // namespace

int Run(const RunOptions& options) {
  io::MakeFilesPrivate();
  const sigset_t set = WatchedSignals();
  pthread_sigmask(SIG_BLOCK, &set, nullptr);  // before any thread: they are read from a descriptor
  signal(SIGPIPE, SIG_IGN);

  const auto refuse = [](const Status& reason, int exit_code) {
    PrintError(reason);
    return exit_code;
  };
  const Result<spec::JobSpec> job = LoadJob(options.job);
  if (!job.ok()) return refuse(job.status(), kExitUsage);
  const Result<ClusterSize> size = SizeFor(options, *job);
  if (options.controller.empty() && !size.ok()) return refuse(size.status(), kExitUsage);
  if (options.controller.empty() && job->built_in() && service::FindTrainer().empty()) {
    return refuse(service::NoTrainer(), kExitFailure);  // before the run folder is made
  }
  const Result<std::vector<spec::HookSpec>> hooks = service::ReadHookFile(options.notify_file);
  if (!hooks.ok()) return refuse(hooks.status(), kExitUsage);
  // Before the run folder is made, so that a full disk leaves no empty one.
  if (const Status disk =
          CheckDisk(options.run_directory.empty() ? "runs/" + job->name : options.run_directory);
      !disk.ok()) {
    return refuse(disk, kExitFailure);
  }
  Result<RunDirectory> directory = MakeRunDirectory(
      options.run_directory, job->name, options.resume || options.launcher != nullptr,
      kPreviousRunLimit, [](const std::string& owner) {
        std::fprintf(stderr, "longhaul: %s; waiting for it to end\n", owner.c_str());
      });
  if (!directory.ok()) return refuse(directory.status(), kExitFailure);
  const std::string warning = io::WarningOfOpenDirectory(directory->path);
  if (!warning.empty()) std::fprintf(stderr, "longhaul: %s\n", warning.c_str());
  Result<std::unique_ptr<io::EventLoop>> loop = io::EventLoop::Create();
  if (!loop.ok()) return refuse(loop.status(), kExitFailure);
  Session session(options, *job, *std::move(directory), *std::move(loop), *hooks);
  return session.Run(size.ok() ? *size : ClusterSize{});
}

}  // namespace longhaul::frontend
