#include "service/agent/agent_service.h"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <cinttypes>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <system_error>
#include <thread>
#include <variant>

#include "base/hash.h"
#include "base/text.h"
#include "base/units.h"
#include "io/clock.h"
#include "io/files/direct_file.h"
#include "io/files/file.h"
#include "io/log/log.h"
#include "io/net/interface.h"
#include "io/process/cgroup.h"
#include "io/process/process.h"
#include "io/process/user_account.h"
#include "service/agent/identity/agent_credentials.h"
#include "service/agent/identity/controller_term.h"
#include "service/agent/job_directories.h"
#include "service/trainer_program.h"

namespace longhaul::service {
namespace {

// How long an agent that is done with its work waits for the controller to have heard of it.
constexpr Duration kSettleLimit = std::chrono::seconds(2);
// How long an agent waits for one before it to leave the state directory.
constexpr Duration kStateDirectoryLimit = std::chrono::seconds(5);
// How often it looks whether committed checkpoints are still there.
constexpr Duration kCheckpointsPeriod = std::chrono::seconds(2);

uint64_t MemoryBytes() {
  return static_cast<uint64_t>(sysconf(_SC_PHYS_PAGES)) *
         static_cast<uint64_t>(sysconf(_SC_PAGESIZE));
}

std::string HostName() {
  std::array<char, 256> name{};
  return gethostname(name.data(), name.size() - 1) == 0 ? name.data() : "unknown";
}

// The built-in trainer's program; empty when there is none.
std::string TrainerPath(const AgentOptions& options) {
  if (!options.trainer.empty()) return options.trainer;
  return FindTrainer();
}

// The interface through which other nodes reach this one; empty: none reaches it.
std::string InterfaceOfAddress(const std::string& address) {
  const Result<std::string> interface = io::InterfaceOf(address);
  return interface.ok() && *interface != "lo" ? *interface : "";
}

}  // namespace

uint32_t AgentService::ArenaOf(const proto::StartWorkers& start, uint32_t rank) {
  return start.arena_first_rank() + (rank - start.first_rank());
}

Result<std::unique_ptr<AgentService>> AgentService::Create(io::EventLoop& loop,
                                                           const AgentOptions& options) {
  if (options.slots == 0) return InvalidArgument("an agent needs at least one slot");
  std::optional<io::UserAccount> user;
  if (!options.run_as.empty()) {
    ASSIGN_OR_RETURN(user, io::FindUser(options.run_as));
    RETURN_IF_ERROR(io::TakeGroupsOf(*user));
  }
  if (const Status made = io::PosixFileSystem().MakeDirectories(options.state_directory);
      !made.ok()) {
    return Status(made.code(), made.message() + "; name another place with --state-dir");
  }
  ASSIGN_OR_RETURN(io::OwnerLock lock,
                   io::OwnerLock::TakeWithin(options.state_directory, "longhaul agent",
                                             kStateDirectoryLimit, nullptr));
  if (user.has_value()) RETURN_IF_ERROR(OpenToWorkers(options.state_directory, *user));
  ASSIGN_OR_RETURN(const AgentCredentials credentials, OpenCredentials(options));
  RETURN_IF_ERROR(io::BecomeSubreaper());

  const auto incarnation = static_cast<uint64_t>(ToNanoseconds(io::Now()));
  const uint64_t memory = MemoryBytes();
  auto snapshots = std::make_unique<AgentMemory>(AgentMemoryOptions{
      options.node, options.state_directory, options.snapshot_keeper, memory / 2, memory / 4});
  ASSIGN_OR_RETURN(auto peer_server, PeerServer::Listen(options.address, credentials.peer_secret,
                                                        snapshots->copies()));
  const runtime::AgentFacts facts{
      options.slots,    std::max(1u, std::thread::hardware_concurrency()),
      memory,           options.address,
      HostName(),       peer_server->port(),
      snapshots->held()};
  std::unique_ptr<AgentService> agent(new AgentService(
      loop, options, incarnation, std::move(snapshots), facts, std::move(lock), std::move(user)));
  agent->peer_server_ = std::move(peer_server);
  ASSIGN_OR_RETURN(agent->endpoints_,
                   WorkerApiServer::Create(loop, options.state_directory, agent->user(), *agent));
  AgentService* self = agent.get();
  const auto feed = [self](runtime::AgentInput input) { self->Feed(std::move(input)); };
  agent->check_ = std::make_unique<SnapshotCheck>(loop, feed);
  const auto feed_process = [self](runtime::AgentInput input) {
    if (auto* gone = std::get_if<runtime::WorkerGone>(&input)) {
      self->endpoints_->TakeRest(gone->worker);
      return self->check_->Gone(std::move(*gone));
    }
    self->Feed(std::move(input));
  };
  agent->launcher_ = std::make_unique<WorkerLauncher>(loop, agent->LaunchOptions(), feed_process);
  agent->probes_ =
      std::make_unique<WorkerProbes>(loop, *agent->launcher_, options.node,
                                     NativeStackOptions{options.stack_reader, agent->user_});
  io::LogInfo(agent->component_, agent->launcher_->LimitsDescription());
  {
    const io::FileIdentity files(agent->user());  // of the threads of these two
    agent->disk_ = std::make_unique<DiskWorker>(loop, io::DirectFileSystem(), feed);
    agent->copies_ = std::make_unique<CopyWorker>(loop, feed);
  }
  agent->peers_ = std::make_unique<PeerWorker>(loop, credentials.peer_secret,
                                               options.peer_bytes_per_second, feed);

  agent->FeedCopies();
  agent->StartChecker(credentials.peer_secret);
  RETURN_IF_ERROR(agent->StartLink(credentials, incarnation));
  agent->CheckCheckpoints();
  agent->WatchDevices();
  return agent;
}

Status AgentService::StartLink(const AgentCredentials& credentials, uint64_t incarnation) {
  ControllerLinkOptions link;
  link.addresses = credentials.controllers;
  ASSIGN_OR_RETURN(ControllerTerm term,
                   ControllerTerm::Open(options_.state_directory + "/controller-term"));
  link.accept_term = [term = std::move(term)](uint64_t offered) mutable {
    return term.Accept(offered);
  };
  link.token = credentials.token;
  if (credentials.tls) {
    link.identity_directory = options_.state_directory;
    renewal_ = std::make_unique<IdentityRenewal>(credentials.controllers, options_.node,
                                                 options_.state_directory);
  }
  link.node = NodeId(options_.node);
  link.incarnation = incarnation;
  link_ = std::make_unique<ControllerLink>(loop_, link, ObserveLink());
  return Status();
}

// Nobody knows the port before the link has reported it, so no copy has arrived yet.
void AgentService::FeedCopies() {
  memory_->copies().OnReceived(
      [this, weak = std::weak_ptr(alive_)](const checkpoint::SnapshotKey& key) {
        loop_.Post([this, weak, key] {
          if (weak.expired()) return;
          Feed(runtime::CopyReceived{JobId(key.job), key.rank, key.attempt, key.step});
        });
      });
}

void AgentService::StartChecker(const std::string& peer_secret) {
  const auto answer = [this](proto::CheckAnswer content) {
    proto::FromAgent message;
    *message.mutable_check() = std::move(content);
    link_->Send(std::move(message));
  };
  checker_ = std::make_unique<NodeChecker>(loop_, options_.state_directory, peer_secret,
                                           options_.check_command, answer);
}

void AgentService::WatchDevices() {
  if (options_.kernel_log.empty()) return;
  Result<std::unique_ptr<KernelLog>> log =
      KernelLog::Open(loop_, options_.kernel_log, [this](const DeviceError& error) {
        io::LogWarning(component_, "device " + error.device + " reports Xid " +
                                       std::to_string(error.code) + ": " + error.text);
        runtime::ReadyReport report;
        proto::DeviceError& event = *report.event.mutable_device_error();
        event.set_device(error.device);
        event.set_code(error.code);
        event.set_text(error.text);
        event.set_needs_reset(error.needs_reset);
        Feed(std::move(report));
      });
  if (log.ok()) {
    kernel_log_ = *std::move(log);
  } else {
    io::LogInfo(component_, log.status().message() + ": errors of devices are not known early");
  }
}

ControllerLinkObserver AgentService::ObserveLink() {
  ControllerLinkObserver observer;
  observer.on_connected = [this](uint64_t acknowledged) {
    connected_ = true;
    logged_reasons_.clear();
    io::LogInfo(component_, "connected to the controller");
    Feed(runtime::Connected{acknowledged});
  };
  observer.on_disconnected = [this](const std::string& reason) {
    connected_ = false;
    io::LogWarning(component_, "the controller is unreachable: " + reason);
    Feed(runtime::Disconnected{});
  };
  observer.on_not_opened = [this](bool answered, const std::string& reason) {
    if (!logged_reasons_.insert(reason).second) return;  // once, not at every try
    if (answered) {
      io::LogError(component_, "the controller refuses this agent: " + reason);
    } else {
      io::LogWarning(component_, "cannot connect to the controller at " + options_.controller +
                                     ", tries again: " + reason);
    }
  };
  observer.on_command = [this](const proto::Command& command) {
    Feed(runtime::CommandReceived{command});
  };
  observer.on_acknowledged = [this](uint64_t sequence) {
    Feed(runtime::EventsAcknowledged{sequence});
  };
  observer.on_check = [this](const proto::CheckOrder& order) {
    const bool busy =
        core_.DisturbedByTests(order.job_id()) || (order.has_device_test() && core_.KeepsWorkers());
    checker_->Run(order, busy);
  };
  return observer;
}

AgentService::AgentService(io::EventLoop& loop, const AgentOptions& options, uint64_t incarnation,
                           std::unique_ptr<AgentMemory> memory, const runtime::AgentFacts& facts,
                           io::OwnerLock lock, std::optional<io::UserAccount> user)
    : loop_(loop),
      options_(options),
      lock_(std::move(lock)),
      user_(std::move(user)),
      core_(NodeId(options.node), incarnation, facts),
      memory_(std::move(memory)) {}

// The state directory names the groups: its lock keeps other agents from the same names.
WorkerLauncherOptions AgentService::LaunchOptions() const {
  WorkerLauncherOptions launch;
  launch.trainer = TrainerPath(options_);
  if (options_.copy_output) launch.copy_output_to = STDOUT_FILENO;
  launch.user = user_;
  launch.network_interface = InterfaceOfAddress(options_.address);
  if (!options_.use_groups) {
    launch.no_groups = "--no-control-groups";
    return launch;
  }
  std::array<char, 17> owner{};
  std::error_code error;
  const std::string path = std::filesystem::canonical(options_.state_directory, error).string();
  std::snprintf(owner.data(), owner.size(), "%016" PRIx64, Hash64(std::string_view(path)));
  Result<std::unique_ptr<io::CgroupFolder>> groups =
      io::CgroupFolder::Open(io::OwnCgroupPlaces(), owner.data());
  if (groups.ok()) {
    launch.groups = *std::move(groups);
  } else {
    launch.no_groups = groups.status().message();
  }
  return launch;
}

AgentService::~AgentService() {
  loop_.Cancel(timer_);
  loop_.Cancel(release_timer_);
  loop_.Cancel(checkpoints_timer_);
  if (settle_timer_.has_value()) loop_.Cancel(*settle_timer_);
}

// ------------------------------------------------------------------------------------ the core

void AgentService::Feed(runtime::AgentInput input) {
  inputs_.push_back(std::move(input));
  if (stepping_) return;
  stepping_ = true;
  while (!inputs_.empty()) {
    const runtime::AgentInput next = std::move(inputs_.front());
    inputs_.pop_front();
    for (const runtime::AgentEffect& effect : core_.Step(next, io::Now())) {
      std::visit([this](const auto& order) { Do(order); }, effect);
    }
    const Status invariants = core_.CheckInvariants();
    CHECK(invariants.ok()) << invariants.message();
  }
  stepping_ = false;
  ArmTimer();
  SeeWhetherReleased();
  SeeWhetherDone();
}

void AgentService::CheckCheckpoints() {
  for (const auto& [job, start] : starts_) {
    disk_->Check(job, CheckpointDirectoryOf(options_.state_directory, *start));
  }
  checkpoints_timer_ = loop_.After(kCheckpointsPeriod, [this] { CheckCheckpoints(); });
}

void AgentService::ArmTimer() {
  loop_.Cancel(timer_);
  timer_ = 0;
  const std::optional<Instant> deadline = core_.NextDeadline();
  if (!deadline.has_value()) return;
  const Duration delay = std::max(Duration(0), *deadline - io::Now());
  timer_ = loop_.After(delay, [this] { Feed(runtime::TimerFired{}); });
}

void AgentService::ShutDownOnceReleased(Duration limit, Duration grace,
                                        std::function<void()> done) {
  CHECK(on_released_ == nullptr && done_ == nullptr) << "shut down twice";
  on_released_ = [this, grace, done = std::move(done)]() mutable {
    ShutDown(grace, std::move(done), /*cluster_ended=*/true);
  };
  release_timer_ = loop_.After(limit, [this] {
    if (on_released_ != nullptr) std::exchange(on_released_, nullptr)();
  });
  SeeWhetherReleased();
}

void AgentService::SeeWhetherReleased() {
  if (on_released_ == nullptr || (connected_ && core_.HasJobs())) return;
  loop_.Cancel(release_timer_);
  std::exchange(on_released_, nullptr)();
}

void AgentService::ShutDown(Duration grace, std::function<void()> done, bool cluster_ended) {
  CHECK(done_ == nullptr) << "shut down twice";
  done_ = [this, done = std::move(done)] {
    memory_->End();
    done();
  };
  Feed(runtime::ShutDownAsked{grace, cluster_ended});
}

void AgentService::SeeWhetherDone() {
  if (done_ == nullptr || !core_.Idle()) return;
  if (connected_ && !core_.Settled()) {
    if (!settle_timer_.has_value()) {
      settle_timer_ = loop_.After(kSettleLimit, [this] { std::exchange(done_, nullptr)(); });
    }
    return;
  }
  if (settle_timer_.has_value()) loop_.Cancel(*settle_timer_);
  std::exchange(done_, nullptr)();
}

// -------------------------------------------------------------------------------- the worker APIs

bool AgentService::IsProcessOf(const runtime::WorkerId& worker, pid_t process) {
  return launcher_->IsProcessOf(worker, process);
}

std::optional<worker_api::WelcomeContent> AgentService::Welcome(const runtime::WorkerId& worker) {
  const auto found = starts_.find(worker.job);
  if (found == starts_.end() || found->second->attempt() != worker.attempt) return std::nullopt;
  const proto::StartWorkers& start = *found->second;
  if (worker.rank < start.first_rank() || worker.rank - start.first_rank() >= start.local_ranks()) {
    return std::nullopt;
  }
  worker_api::WelcomeContent content;
  // What came from a peer lies in the worker's arena by now.
  const bool from_peer = start.restore().tier() == proto::Restore::TIER_PEER;
  const auto tier = from_peer ? proto::Restore::TIER_MEMORY : start.restore().tier();
  content.restore_tier = static_cast<uint32_t>(tier);
  content.restore_step = start.restore().step();
  content.restore_saved_attempt = start.restore().saved_attempt();
  content.restore_rank = start.job().snapshot().replicated() ? 0 : worker.rank;
  const auto interval = intervals_.find({worker.job, worker.attempt});
  content.snapshot_interval_steps =
      interval == intervals_.end() ? start.snapshot_interval_steps() : interval->second;
  content.lease_samples = start.lease().data().samples();
  content.lease_global_batch = start.lease().data().global_batch();
  content.lease_seed = start.lease().data().seed();
  content.lease_first_step = start.lease().first_step();
  content.lease_end_step = start.lease().end_step();
  content.checkpoint_directory = CheckpointDirectoryOf(options_.state_directory, start);
  content.config = start.job().workload().trainer_config();
  return content;
}

Result<std::shared_ptr<const io::SharedMemory>> AgentService::Arena(const runtime::WorkerId& worker,
                                                                    uint64_t bytes) {
  const auto start = starts_.find(worker.job);
  if (start == starts_.end() || start->second->attempt() != worker.attempt) {
    return FailedPrecondition("attempt " + std::to_string(worker.attempt) + " is over");
  }
  return memory_->Provide(worker.job, ArenaOf(*start->second, worker.rank), bytes);
}

// Reports damaged pieces to the controller: with the worker's own reason when it can't continue,
// else in a message of their own.
void AgentService::Gather(const runtime::WorkerId& worker,
                          std::optional<checkpoint::StatePlan> plan, PiecesReady ready) {
  const auto start = starts_.find(worker.job);
  const bool known = start != starts_.end() && start->second->attempt() == worker.attempt &&
                     start->second->restore().tier() == proto::Restore::TIER_PIECES;
  if (!known) return ready(FailedPrecondition("this attempt restores nothing from pieces"));
  GatherOrder order;
  order.job = worker.job;
  order.rank = worker.rank;
  order.restore = start->second->restore();
  order.node = options_.node;
  order.plan = std::move(plan);
  order.limit = MemoryBytes() / 2;
  const bool wants_state = order.plan.has_value();
  const auto done = [this, worker, ready, wants_state,
                     step = order.restore.step()](const Gathered& gathered) {
    bad_pieces_.erase(worker);
    if (!gathered.status.ok()) {
      bad_pieces_[worker] = gathered.bad;
      return ready(gathered.status);
    }
    if (!gathered.bad.empty()) {
      Feed(runtime::WorkerRestoreFailed{worker, step, proto::Restore::TIER_PIECES, gathered.why,
                                        gathered.bad, true});
    }
    if (wants_state) {
      io::LogInfo(component_, "rank " + std::to_string(worker.rank) + " has step " +
                                  std::to_string(step) + " out of pieces, " +
                                  ToString(Bytes(static_cast<int64_t>(gathered.bytes_fetched))) +
                                  " of them fetched");
      return ready(Pieces{gathered.arena, gathered.arena->bytes().size()});
    }
    ready(PlanInMemory(gathered.saved));
  };
  peers_->Gather(std::move(order), memory_->copies(), done);
}

Result<WorkerApiHost::Pieces> AgentService::PlanInMemory(const checkpoint::StatePlan& plan) {
  const std::string encoded = plan.Encode();
  ASSIGN_OR_RETURN(
      io::Fd fd,
      io::CreateSharedMemory("longhaul-plan", Bytes(static_cast<int64_t>(encoded.size())), false));
  ASSIGN_OR_RETURN(auto memory, io::SharedMemory::Open(std::move(fd)));
  std::memcpy(memory->bytes().data(), encoded.data(), encoded.size());
  return Pieces{std::move(memory), encoded.size()};
}

// A worker doesn't know that its arena came from a peer; the controller shall.
void AgentService::TakeInput(runtime::AgentInput input) {
  const auto name_tier = [this](auto& restored) {
    const auto found = starts_.find(restored.worker.job);
    const bool from_peer = found != starts_.end() &&
                           found->second->attempt() == restored.worker.attempt &&
                           found->second->restore().tier() == proto::Restore::TIER_PEER;
    if (from_peer) restored.tier = proto::Restore::TIER_PEER;
  };
  if (auto* sealed = std::get_if<runtime::WorkerSealed>(&input)) {
    const auto start = starts_.find(sealed->worker.job);
    const bool known = start != starts_.end() && start->second->attempt() == sealed->worker.attempt;
    const auto arena =
        known ? memory_->Find(sealed->worker.job, ArenaOf(*start->second, sealed->worker.rank))
              : nullptr;
    if (known) {
      memory_->copies().NoteSealed(
          {sealed->worker.job.value(), ArenaOf(*start->second, sealed->worker.rank)});
    }
    return check_->Sealed(std::move(*sealed), arena);
  }
  if (auto* restored = std::get_if<runtime::WorkerRestored>(&input)) name_tier(*restored);
  if (auto* failed = std::get_if<runtime::WorkerRestoreFailed>(&input)) {
    name_tier(*failed);
    const auto bad = bad_pieces_.extract(failed->worker);
    if (!bad.empty()) failed->bad = bad.mapped();
  }
  Feed(std::move(input));
}

}  // namespace longhaul::service
