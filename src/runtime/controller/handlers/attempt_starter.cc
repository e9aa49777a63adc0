#include "runtime/controller/handlers/attempt_starter.h"

#include <algorithm>
#include <string>
#include <utility>

#include "runtime/controller/handlers/checkpoint_handler.h"
#include "runtime/controller/handlers/fault_handler.h"
#include "runtime/controller/handlers/health/start_checks.h"
#include "runtime/rendezvous/request_parser.h"

namespace longhaul::runtime::controller {

namespace {

// A whole checkpoint over a network, and the start of the workers after it, take at most this long.
constexpr Duration kFetchLimit = std::chrono::hours(2);

proto::Category CategoryOf(proto::PhaseEntered::Phase phase) {
  switch (phase) {
    case proto::PhaseEntered::START_UP:
      return proto::START_UP_TIME;
    case proto::PhaseEntered::RENDEZVOUS:
      return proto::RENDEZVOUS_TIME;
    case proto::PhaseEntered::RESTORE:
      return proto::RESTORE_TIME;
    case proto::PhaseEntered::STEPPING:
      return proto::LOST_WORK;  // a step begun: lost unless reported
    case proto::PhaseEntered::FINISHING:
      return proto::FINISH;
    default:
      return proto::OTHER;
  }
}

// A fault that has been injected is not injected again, also where its step is repeated.
void KeepFaultsToCome(const JobRecord& job,
                      google::protobuf::RepeatedPtrField<proto::PlannedFault>& faults) {
  for (int i = job.spec().faults_size() - 1; i >= 0; --i) {
    if (job.faults.injected(i)) faults.erase(faults.begin() + i);
  }
}

}  // namespace

Duration StartLimitOf(const JobRecord& job, const ControllerOptions& options) {
  const bool fetches = job.snapshots.restore().tier() == proto::Restore::TIER_SHARED;
  return fetches ? kFetchLimit : job.starts.Limit(options.start_limit);
}

// The order of the calls matters. The attempt number is raised first, since commands and snapshots
// carry it. The restore is chosen with the gang that ReplaceGang has set. Writer, lease, ledger and
// progress then go back to the restored step together, so that no part still counts a step that
// will be done again.
void AttemptStarter::OpenAttempt(JobRecord& job) {
  const std::string& id = job.id();
  const bool first = job.faults.empty();
  job.data.Close(job.life.attempt());
  job.life.BeginAttempt();
  const uint64_t attempt = job.life.attempt();
  job.faults.Dismiss();
  job.placement.EndVacate();
  context_.deadlines.Clear(DeadlineKind::kVacate, id);
  job.hang.BeginAttempt();
  job.slowness.BeginAttempt(job.world());
  job.rank_work.BeginAttempt(job.nodes(), job.local());
  job.idle.BeginAttempt();
  job.stacks.Cancel();
  // Copies and pieces of bad states may have arrived since the decision.
  if (const auto good = job.numeric.newest_good()) job.ForgetStatesAbove(*good);
  const proto::Restore restore =
      job.snapshots.ChooseRestore(context_.ViewOf(job), job.copier.copies());
  const uint64_t from = restore.step();
  job.snapshots.BeginAttempt(attempt, job.nodes(), restore);
  job.writer.Rewind(from);
  job.group.BeginAttempt(job.data.Open(attempt, from, job.spec().total_steps()), from, job.world());
  // Else the first line of output says what is lost.
  if (!job.restores_by_itself()) job.ledger.Rollback(from);
  job.ledger.EnterAll(first ? proto::START_UP_TIME : proto::REPAIR, context_.now);
  job.progress.BeginAttempt(from);
  job.numeric.BeginAttempt(from);
  context_.SetState(job, first ? proto::STARTING : proto::RECOVERING,
                    "forming attempt " + std::to_string(attempt));
  proto::Notification& notification = context_.AddNotification(id);
  proto::AttemptNotification& begun = *notification.mutable_attempt();
  begun.set_attempt(attempt);
  begun.set_world(job.world());
  for (const Member& member : job.group.members()) begun.add_gang(member.node.value());
  *begun.mutable_restore() = restore;
  context_.AddLedger(job, notification);
  context_.deadlines.Clear(DeadlineKind::kProgress, id);
  job.starts.Begin(restore.tier(), context_.now);
  WatchStart(job);
  job.start_check = false;
  if (!checks_.Await(job)) SendOpenStore(job);
}

void AttemptStarter::Proceed(JobRecord& job) {
  context_.SetState(job, job.life.state(), "forming attempt " + std::to_string(job.life.attempt()));
  job.starts.Begin(job.snapshots.restore().tier(), context_.now);
  WatchStart(job);
  SendOpenStore(job);
}

// Of workers that report their phases it is known sooner that they do not get on.
void AttemptStarter::WatchStart(const JobRecord& job) {
  Instant over = job.starts.begun() + StartLimitOf(job, context_.options);
  if (const auto phase = job.starts.PhaseLimit()) over = std::min(over, context_.now + *phase);
  context_.deadlines.Set(DeadlineKind::kStart, job.id(), over);
}

void AttemptStarter::WatchStartsAgain() {
  for (auto& [id, job] : context_.jobs.all()) {
    if (!context_.deadlines.all().contains({DeadlineKind::kStart, id})) continue;
    job.starts.CountFrom(context_.now);
    WatchStart(job);
  }
}

// Commands are lost when a connection breaks, so an agent that rejoins receives them again. Before
// the store is open only the first node has something to do.
void AttemptStarter::StartAgain(const JobRecord& job, size_t place) {
  if (job.group.store_port() != 0) {
    SendStart(job, place);
  } else if (place == 0 && !job.start_check) {
    SendOpenStore(job);
  }
}

void AttemptStarter::SendOpenStore(const JobRecord& job) {
  proto::Command command;
  auto* open = command.mutable_open_store();
  open->set_job_id(job.id());
  open->set_attempt(job.life.attempt());
  open->set_world(job.world());
  if (!job.spec().workload().built_in()) *open->mutable_workload() = job.spec().workload();
  if (job.snapshots.restore().tier() == proto::Restore::TIER_SHARED) {
    *open->mutable_fetch() = job.snapshots.restore();
    *open->mutable_job() = job.spec();
  }
  context_.Send(job.group.member(0).node, std::move(command));
}

void AttemptStarter::SendStart(const JobRecord& job, size_t place) {
  proto::Command command;
  *command.mutable_start_workers() = StartOf(job, place);
  context_.Send(job.group.member(place).node, std::move(command));
}

proto::StartWorkers AttemptStarter::StartOf(const JobRecord& job, size_t place) const {
  proto::StartWorkers start;
  const uint32_t local = job.local();
  start.set_job_id(job.id());
  start.set_attempt(job.life.attempt());
  start.set_restart_count(job.faults.restarts());
  start.set_node_rank(static_cast<uint32_t>(place));
  start.set_nodes(job.nodes());
  start.set_first_rank(static_cast<uint32_t>(place) * local);
  start.set_local_ranks(local);
  start.set_world(job.world());
  start.set_master_address(context_.nodes.at(job.group.member(0).node).facts.address());
  start.set_master_port(job.group.store_port());
  *start.mutable_job() = job.spec();
  KeepFaultsToCome(job, *start.mutable_job()->mutable_faults());
  if (!job.group.torch_version().empty()) {
    start.mutable_job()->mutable_workload()->set_torch_version(job.group.torch_version());
  }
  *start.mutable_restore() = job.snapshots.RestoreFor(context_.ViewOf(job), place);
  *start.mutable_lease() = job.group.lease();
  start.set_snapshot_interval_steps(job.interval.steps());
  start.set_arena_first_rank(job.snapshots.places()[place].arena_first_rank);
  start.set_persist_on_command(true);
  for (uint32_t device = 0; device < spec::kMaxDevices; ++device) {
    if ((job.group.member(place).devices >> device & 1) != 0) start.add_devices(device);
  }
  if (const Node* peer = PeerOf(job, place)) {
    start.set_peer_node(peer->id.value());
    start.set_peer_address(peer->facts.address());
    start.set_peer_port(peer->facts.peer_port());
  }
  return start;
}

// The next place of the gang on another host, or at least on another node.
// Another host is preferred, because the nodes of one host are lost together. The search begins at
// the next place, so that the copies spread evenly over the gang.
const Node* AttemptStarter::PeerOf(const JobRecord& job, size_t place) const {
  if (!context_.nodes.has_peers()) return nullptr;
  const Node* own = context_.nodes.Find(job.group.member(place).node);
  const Node* on_this_host = nullptr;
  const size_t nodes = job.group.size();
  for (size_t i = 1; i < nodes && own != nullptr; ++i) {
    const Node* node = context_.nodes.Find(job.group.member((place + i) % nodes).node);
    if (node == nullptr || node == own || node->facts.peer_port() == 0) continue;
    if (node->facts.host() != own->facts.host()) return node;
    if (on_this_host == nullptr) on_this_host = node;
  }
  return on_this_host;
}

void AttemptStarter::OnStoreOpened(const proto::Event& event) {
  const auto& opened = event.store_opened();
  size_t place = 0;
  JobRecord* job = context_.CurrentJob(event, opened.job_id(), opened.attempt(), &place);
  if (job == nullptr || place != 0 || opened.port() == 0 || opened.port() > 65535) return;
  if (job->faults.undecided() || job->life.state() == proto::STOPPING) return;
  // A repeated report, or a store that a new agent has opened again, changes nothing: the workers
  // have the first port.
  const std::string& version = opened.torch_version();
  if (!job->group.OpenStore(opened.port(), IsTorchVersion(version) ? version : "")) return;
  checkpoints_.NoteFetched(*job);
  for (size_t i = 0; i < job->group.size(); ++i) SendStart(*job, i);
  // After the starts: a new agent learns of the job with them.
  checkpoints_.SendOrderAgain(*job);
  checkpoints_.OrderWrite(*job);
}

void AttemptStarter::OnWorkersStarted(const proto::Event& event) {
  const auto& started = event.workers_started();
  size_t place = 0;
  JobRecord* job = context_.CurrentJob(event, started.job_id(), started.attempt(), &place);
  if (job == nullptr || job->group.member(place).started || job->faults.undecided()) return;
  const Instant at = InstantFromNanoseconds(event.at_ns());
  const bool all = job->group.Start(place, started, job->local(), context_.now);
  const bool speaks = job->spec().workload().built_in();
  job->ledger.Enter(place, speaks ? proto::START_UP_TIME : proto::UNREPORTED, at);
  if (!all) return;
  // The scheduler keeps a placement provisional until all workers run.
  if (const uint64_t transaction = job->placement.TakeTransaction(); transaction != 0) {
    context_.scheduler.Confirm(JobId(started.job_id()), transaction, true, context_.now);
  }
  job->faults.Stamp(RestartStage::kStarted, at);
  if (speaks) return;
  // A command that reports nothing to its agent may never be heard of again.
  context_.deadlines.Clear(DeadlineKind::kStart, started.job_id());
  faults_.ResolveFaults(*job, at);
  context_.SetState(*job, proto::RUNNING, "all workers run");
}

void AttemptStarter::OnPhaseEntered(const proto::Event& event) {
  const auto& entered = event.phase_entered();
  size_t place = 0;
  JobRecord* job = context_.CurrentJob(event, entered.job_id(), entered.attempt(), &place);
  if (job == nullptr || job->faults.undecided()) return;
  const auto phase = entered.phase();
  // An agent of another version, or a false one, may send any number.
  if (!proto::PhaseEntered::Phase_IsValid(phase)) return;
  // Phases only advance within an attempt. A late report of an earlier phase would move the ledger
  // back.
  if (phase <= job->group.member(place).phase) return;
  const Instant at = InstantFromNanoseconds(event.at_ns());
  job->ledger.Enter(place, CategoryOf(phase), at);
  if (!job->group.EnterPhase(place, phase)) return;
  job->starts.EnterPhase(phase, context_.now);
  if (context_.deadlines.all().contains({DeadlineKind::kStart, job->id()})) WatchStart(*job);
  if (phase == proto::PhaseEntered::RENDEZVOUS) job->faults.Stamp(RestartStage::kRendezvous, at);
  if (phase == proto::PhaseEntered::RESTORE) job->faults.Stamp(RestartStage::kRestoring, at);
  if (phase == proto::PhaseEntered::STEPPING) {
    job->faults.Stamp(RestartStage::kStepping, at);
    job->hang.CountFrom(at);
    context_.SetState(*job, proto::RUNNING,
                      entered.restored_step() == 0
                          ? "training from the start"
                          : "training on from step " + std::to_string(entered.restored_step()));
  }
  if (phase == proto::PhaseEntered::FINISHING) {
    context_.deadlines.Clear(DeadlineKind::kProgress, entered.job_id());
  }
}

}  // namespace longhaul::runtime::controller
