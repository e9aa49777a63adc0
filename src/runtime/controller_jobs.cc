// A job's life: submission, placement, epochs, progress, end.
#include <algorithm>
#include <utility>

#include "runtime/cluster/elastic.h"
#include "runtime/internal/controller_state.h"

namespace longhaul::runtime {

using internal::DeadlineKind;

namespace {

// So long may the last checkpoint take to reach the disk once the workers are gone.
constexpr Duration kCloseLimit = std::chrono::seconds(60);
// Of a whole checkpoint over a network.
constexpr Duration kCopyLimit = std::chrono::hours(1);
constexpr Duration kFetchLimit = std::chrono::hours(2);
// Until so many ranks fit a controller's memory; far beyond any machine there is.
constexpr uint64_t kMaxWorld = 1'000'000;

wire::Category CategoryOf(wire::PhaseEntered::Phase phase) {
  switch (phase) {
    case wire::PhaseEntered::START_UP:
      return wire::START_UP_TIME;
    case wire::PhaseEntered::RENDEZVOUS:
      return wire::RENDEZVOUS_TIME;
    case wire::PhaseEntered::RESTORE:
      return wire::RESTORE_TIME;
    case wire::PhaseEntered::STEPPING:
      return wire::LOST_WORK;  // a step begun: lost unless reported
    case wire::PhaseEntered::FINISHING:
      return wire::FINISH;
    default:
      return wire::OTHER;
  }
}

}  // namespace

Status Controller::State::CheckSubmission(const wire::Job& job) const {
  if (job.id().empty()) return InvalidArgument("a job needs an id");
  if (jobs_.contains(job.id())) return AlreadyExists("there is a job " + job.id() + " already");
  const uint64_t world = uint64_t{job.nodes()} * job.processes_per_node();
  if (world == 0 || world > kMaxWorld) {
    return InvalidArgument("job " + job.id() + " wants " + std::to_string(job.nodes()) +
                           " nodes of " + std::to_string(job.processes_per_node()) +
                           " processes; both must be at least 1 and make at most 1,000,000 ranks");
  }
  for (const auto& [id, other] : jobs_) {
    if (other.live() && other.spec.run_directory() == job.run_directory() &&
        !job.run_directory().empty()) {
      return AlreadyExists("job " + id + " is running in " + job.run_directory() + " already");
    }
  }
  RETURN_IF_ERROR(CheckBounds(job));
  const Status fits = scheduler_.CheckSubmission(job);
  return fits.ok() ? fits : fits.WithContext("job " + job.id());
}

void Controller::State::OnJobSubmitted(const wire::Job& spec) {
  if (!CheckSubmission(spec).ok()) return;
  order_.push_back(spec.id());
  const double expected = ToSeconds(options_.expected_time_between_failures);
  Job& job = jobs_.emplace(spec.id(), Job(spec, now_, Seconds(expected))).first->second;
  Touch(job);
  job.injected.resize(static_cast<size_t>(spec.faults_size()));
  if (spec.committed_step() > 0) {
    job.committed_step = spec.committed_step();
    job.committed_epoch = spec.committed_epoch();
    job.committed[job.committed_step] = job.committed_epoch;
    // Epochs name directories on disk: never reuse one.
    job.epoch = spec.committed_epoch();
  }
  for (const wire::Copy& copy : spec.copies()) {
    job.copies[copy.step()] = copy.epoch();
    job.copied_step = std::max(job.copied_step, copy.step());
    job.epoch = std::max(job.epoch, copy.epoch());
  }
  SetState(job, wire::QUEUED, "submitted");
  scheduler_.Submit(spec, now_);
  Schedule();
  if (job.state == wire::QUEUED) SetState(job, wire::QUEUED, scheduler_.WaitText(JobId(spec.id())));
}

void Controller::State::OnJobStopRequested(const wire::JobStopRequested& request) {
  Job* job = FindJob(request.job_id());
  if (job == nullptr || !job->live() || job->closing.has_value()) return;
  const std::string reason = request.reason().empty() ? "asked to stop" : request.reason();
  if (job->gang.empty()) return BeginClosing(*job, wire::STOPPED, reason);
  job->undecided = false;
  job->retreat.reset();
  deadlines_.Clear(DeadlineKind::kRetreat, request.job_id());
  SetState(*job, wire::STOPPING, reason);
  for (Member& member : job->gang) {
    const Node* node = FindNode(member.node);
    member.closed = member.closed || node == nullptr || node->lost;
  }
  SendKill(*job, options_.stop_grace, reason);
  // An epoch that failed just before may be closed already; agents say so once.
  CloseIfStopped(*job);
  if (job->closing.has_value()) return;
  deadlines_.Clear(DeadlineKind::kProgress, request.job_id());
  deadlines_.Clear(DeadlineKind::kStart, request.job_id());
  deadlines_.Set(DeadlineKind::kStop, request.job_id(),
                 now_ + options_.stop_grace + std::chrono::seconds(5));
}

Controller::State::Job* Controller::State::FindJob(const std::string& id) {
  const auto found = jobs_.find(id);
  if (found == jobs_.end()) return nullptr;
  Touch(found->second);
  return &found->second;
}

std::optional<size_t> Controller::State::MemberOf(const Job& job, const std::string& node) {
  const auto found = job.places.find(node);
  if (found == job.places.end()) return std::nullopt;
  return found->second;
}

Controller::State::Job* Controller::State::CurrentJob(const wire::Event& event,
                                                      const std::string& id, uint64_t epoch,
                                                      size_t* member) {
  Job* job = FindJob(id);
  if (job == nullptr || !job->live() || job->epoch != epoch) return nullptr;
  const auto index = MemberOf(*job, event.node());
  if (!index.has_value()) return nullptr;
  *member = *index;
  return job;
}

// A new membership: everything of lower epochs is void from here on.
void Controller::State::OpenEpoch(Job& job) {
  const std::string& id = job.spec.id();
  const bool first = job.faults.empty();
  job.data.Close(job.epoch);
  ++job.epoch;
  job.nodes_of_epoch[job.epoch] = job.nodes();
  job.store_port = 0;
  job.undecided = false;
  job.retreat.reset();
  deadlines_.Clear(DeadlineKind::kRetreat, id);
  job.reports_steps = false;
  job.members_started = 0;
  job.members_in_phase = {};
  job.slowest_report = {};
  job.probes = 0;
  job.slot_wait.clear();
  job.restore = ChooseRestore(job);
  const uint64_t from = job.restore.step();
  constexpr size_t kRememberedEpochs = 64;  // snapshots in memory are of the newest ones
  job.validation_losses.erase(job.validation_losses.upper_bound(from), job.validation_losses.end());
  job.restored[job.epoch] = from;
  if (job.restored.size() > kRememberedEpochs) job.restored.erase(job.restored.begin());
  for (Member& member : job.gang) {
    member.started = member.closed = false;
    member.phase = wire::PhaseEntered::PHASE_UNSPECIFIED;
    member.ranks_done = 0;
    member.reported_step = from;
    // What was sealed after the step that all go back to is history that didn't happen.
    for (uint64_t& sealed : member.sealed) sealed = sealed > from ? 0 : sealed;
    if (member.sealed[0] == 0) std::swap(member.sealed[0], member.sealed[1]);
    for (uint64_t& copied : member.copied) copied = copied > from ? 0 : copied;
    if (member.copied[0] == 0) std::swap(member.copied[0], member.copied[1]);
  }
  job.seals.clear();
  job.memory_step = std::min(job.memory_step, from);
  job.complete.erase(job.complete.upper_bound(from), job.complete.end());
  job.spreads.erase(job.spreads.upper_bound(from), job.spreads.end());
  job.contents.erase(job.contents.upper_bound(from), job.contents.end());
  job.unsaved_step = std::min(job.unsaved_step, from);
  if (job.save_failure_step > from) job.save_failure.clear();
  if (job.order.has_value() && job.order->step > from) job.order.reset();
  job.lease = job.data.Open(job.epoch, from, job.spec.total_steps());
  job.ledger.Rollback(from);
  job.ledger.EnterAll(first ? wire::START_UP_TIME : wire::REPAIR, now_);
  job.step = from;
  // A snapshot is sealed before its step is reported: it proves the step all the same.
  job.highest_step = std::max(job.highest_step, from);
  job.pids.assign(job.world(), 0);
  SetState(job, first ? wire::STARTING : wire::RECOVERING,
           "forming epoch " + std::to_string(job.epoch));
  auto* notice = AddNotice(id).mutable_epoch();
  notice->set_epoch(job.epoch);
  notice->set_world(job.world());
  for (const Member& member : job.gang) notice->add_gang(member.node.value());
  *notice->mutable_restore() = job.restore;
  deadlines_.Clear(DeadlineKind::kProgress, id);
  const bool fetches = job.restore.tier() == wire::Restore::TIER_SHARED;
  deadlines_.Set(DeadlineKind::kStart, id, now_ + (fetches ? kFetchLimit : options_.start_limit));
  SendOpenStore(job);
}

void Controller::State::SendOpenStore(const Job& job) {
  wire::Command command;
  auto* open = command.mutable_open_store();
  open->set_job_id(job.spec.id());
  open->set_epoch(job.epoch);
  open->set_world(job.world());
  open->set_torch_version(job.spec.workload().torch_version());
  if (job.restore.tier() == wire::Restore::TIER_SHARED) {
    *open->mutable_fetch() = job.restore;
    *open->mutable_job() = job.spec;
  }
  Send(job.gang[0].node, std::move(command));
}

void Controller::State::SendStart(const Job& job, size_t member) {
  wire::Command command;
  auto* start = command.mutable_start_workers();
  const uint32_t local = job.spec.processes_per_node();
  start->set_job_id(job.spec.id());
  start->set_epoch(job.epoch);
  start->set_restart_count(job.restarts);
  start->set_node_rank(static_cast<uint32_t>(member));
  start->set_nodes(job.nodes());
  start->set_first_rank(static_cast<uint32_t>(member) * local);
  start->set_local_ranks(local);
  start->set_world(job.world());
  start->set_master_address(nodes_.at(job.gang[0].node).facts.address());
  start->set_master_port(job.store_port);
  *start->mutable_job() = job.spec;
  *start->mutable_restore() = RestoreFor(job, member);
  *start->mutable_lease() = job.lease;
  start->set_snapshot_interval_steps(job.interval.steps());
  start->set_arena_first_rank(job.gang[member].arena_first_rank);
  start->set_persist_when_told(true);
  if (const Node* peer = PeerOf(job, member)) {
    start->set_peer_node(peer->id.value());
    start->set_peer_address(peer->facts.address());
    start->set_peer_port(peer->facts.peer_port());
  }
  Send(job.gang[member].node, std::move(command));
}

void Controller::State::SendKill(const Job& job, Duration grace, const std::string& reason) {
  for (const Member& member : job.gang) {
    wire::Command command;
    auto* kill = command.mutable_kill_workers();
    kill->set_job_id(job.spec.id());
    kill->set_epoch(job.epoch);
    kill->set_grace_ns(grace.count());
    kill->set_reason(reason);
    Send(member.node, std::move(command));
  }
}

void Controller::State::OnStoreOpened(const wire::Event& event) {
  const auto& opened = event.store_opened();
  size_t member = 0;
  Job* job = CurrentJob(event, opened.job_id(), opened.epoch(), &member);
  if (job == nullptr || member != 0 || opened.port() == 0 || opened.port() > 65535) return;
  if (job->undecided || job->state == wire::STOPPING || job->store_port != 0) return;
  job->store_port = opened.port();
  NoteFetched(*job);
  for (size_t i = 0; i < job->gang.size(); ++i) SendStart(*job, i);
  // After the starts: a new agent learns of the job with them.
  SendPersistAgain(*job);
  OrderPersist(*job);
}

void Controller::State::OnWorkersStarted(const wire::Event& event) {
  const auto& started = event.workers_started();
  size_t member = 0;
  Job* job = CurrentJob(event, started.job_id(), started.epoch(), &member);
  if (job == nullptr || job->gang[member].started || job->undecided) return;
  const Instant at = InstantFromNanoseconds(event.at_ns());
  job->gang[member].started = true;
  const uint32_t local = job->spec.processes_per_node();
  for (uint32_t i = 0; i < local && i < static_cast<uint32_t>(started.pids_size()); ++i) {
    job->pids[member * local + i] = started.pids(static_cast<int>(i));
  }
  const bool speaks = job->spec.workload().built_in();
  job->ledger.Enter(member, speaks ? wire::START_UP_TIME : wire::UNREPORTED, at);
  if (++job->members_started < job->gang.size()) return;
  job->started = now_;
  if (job->transaction != 0) {
    scheduler_.Confirm(JobId(started.job_id()), std::exchange(job->transaction, 0), true, now_);
  }
  StampFaults(*job, Stage::kStarted, at);
  if (speaks) return;
  // Nothing more may ever be heard of a command that doesn't use the door.
  deadlines_.Clear(DeadlineKind::kStart, started.job_id());
  ResolveFaults(*job, at);
  SetState(*job, wire::RUNNING, "all workers run");
}

void Controller::State::OnPhaseEntered(const wire::Event& event) {
  const auto& entered = event.phase_entered();
  size_t index = 0;
  Job* job = CurrentJob(event, entered.job_id(), entered.epoch(), &index);
  if (job == nullptr || job->undecided || entered.phase() <= job->gang[index].phase) return;
  const Instant at = InstantFromNanoseconds(event.at_ns());
  const auto phase = entered.phase();
  const int before = job->gang[index].phase;
  job->gang[index].phase = phase;
  job->ledger.Enter(index, CategoryOf(phase), at);
  // A phase that was skipped counts as entered.
  bool all = false;
  for (auto each = before + 1; each <= phase; ++each) {
    all = ++job->members_in_phase[static_cast<size_t>(each)] == job->gang.size();
  }
  if (!all) return;
  if (phase == wire::PhaseEntered::RENDEZVOUS) StampFaults(*job, Stage::kRendezvous, at);
  if (phase == wire::PhaseEntered::RESTORE) StampFaults(*job, Stage::kRestoring, at);
  if (phase == wire::PhaseEntered::STEPPING) {
    StampFaults(*job, Stage::kStepping, at);
    job->last_progress = at;
    SetState(*job, wire::RUNNING,
             entered.restored_step() == 0
                 ? "training from the start"
                 : "training on from step " + std::to_string(entered.restored_step()));
  }
  if (phase == wire::PhaseEntered::FINISHING) {
    deadlines_.Clear(DeadlineKind::kProgress, entered.job_id());
  }
}

void Controller::State::OnStepReported(const wire::Event& event) {
  const auto& report = event.step_reported();
  size_t index = 0;
  Job* job = CurrentJob(event, report.job_id(), report.epoch(), &index);
  if (job == nullptr || job->undecided) return;
  Member& member = job->gang[index];
  // Steps come one after another, each once, and not beyond the lease.
  if (report.first_step() != member.reported_step + 1 || report.last_step() < report.first_step() ||
      report.last_step() >= job->lease.end_step()) {
    return;
  }
  const Instant at = InstantFromNanoseconds(event.at_ns());
  if (report.whole_job()) {
    for (Member& each : job->gang) each.reported_step = report.last_step();
    job->ledger.BookStepsForAll(report.first_step(), report.last_step(), report.times(), at);
  } else {
    member.reported_step = report.last_step();
    job->ledger.BookSteps(index, report.first_step(), report.last_step(), report.times(), at);
  }
  if (report.has_loss() || report.whole_job()) TakeProgress(*job, report, at);
}

void Controller::State::TakeProgress(Job& job, const wire::StepReported& report, Instant at) {
  const auto count = static_cast<double>(report.last_step() - report.first_step() + 1);
  const Duration took = std::max(at - job.last_progress, Duration(0));
  // A hang is judged by the slowest report of late; slow ones are forgotten slowly.
  job.slowest_report = std::max(took, job.slowest_report * 99 / 100);
  if (job.reports_steps) {
    const double each = ToSeconds(took) / count;
    job.step_seconds = job.step_seconds > 0 ? 0.8 * job.step_seconds + 0.2 * each : each;
    job.tokens_per_second =
        job.step_seconds > 0 ? static_cast<double>(report.tokens()) / count / job.step_seconds : 0;
    const double steady = ToSeconds(took) - ToSeconds(Duration(report.times().evaluation_ns()));
    job.interval.ObserveStep(Seconds(std::max(steady, 0.0) / count));
    job.interval.ObserveRunning(Seconds(ToSeconds(took)));
  }
  if (!std::exchange(job.reports_steps, true)) FreeLeft(job);
  job.probes = 0;
  job.slot_wait.clear();
  job.last_progress = std::max(at, job.last_progress);
  job.step = report.last_step();
  StampFaults(job, Stage::kFirstStep, at);
  if (report.last_step() > job.highest_step) {
    const double fresh =
        std::min(count, static_cast<double>(report.last_step() - job.highest_step)) / count;
    job.tokens += static_cast<double>(report.tokens()) * fresh;
    job.flops += report.flops() * fresh;
    job.highest_step = report.last_step();
    job.fruitless = 0;
  }
  ResolveFaults(job, at);
  if (report.has_loss()) {
    if (!job.has_first_loss) job.first_loss = report.loss();
    job.has_first_loss = true;
    job.loss = report.loss();
  }
  if (report.has_validation_loss()) {
    if (!job.has_validation_loss) job.first_validation_loss = report.validation_loss();
    job.has_validation_loss = true;
    constexpr size_t kRememberedLosses = 32;
    job.validation_losses[report.last_step()] = report.validation_loss();
    if (job.validation_losses.size() > kRememberedLosses) {
      job.validation_losses.erase(job.validation_losses.begin());
    }
    job.validation_loss = report.validation_loss();
  }
  auto* notice = AddNotice(job.spec.id()).mutable_step();
  notice->set_step(job.step);
  notice->set_epoch(job.epoch);
  notice->set_loss(report.loss());
  notice->set_has_validation_loss(report.has_validation_loss());
  notice->set_validation_loss(report.validation_loss());
  notice->set_gradient_norm(report.gradient_norm());
  notice->set_tokens_per_second(job.tokens_per_second);
  notice->set_step_seconds(job.step_seconds);
  notice->set_total_steps(job.spec.total_steps());
  notice->set_goodput(job.ledger.Goodput());
  notice->set_eta_seconds(job.spec.total_steps() > 0 && job.step_seconds > 0
                              ? job.step_seconds *
                                    static_cast<double>(job.spec.total_steps() - job.step)
                              : -1);
  deadlines_.Clear(DeadlineKind::kStart, job.spec.id());
  WatchProgress(job);
  InjectDueFaults(job);
}

void Controller::State::OnEpochClosed(const wire::Event& event) {
  const auto& closed = event.epoch_closed();
  size_t index = 0;
  Job* job = CurrentJob(event, closed.job_id(), closed.epoch(), &index);
  if (job == nullptr) return;
  job->gang[index].closed = true;
  CloseIfStopped(*job);
  AdvanceRetreat(*job);
}

void Controller::State::CloseIfStopped(Job& job) {
  if (!job.live() || job.state != wire::STOPPING) return;
  const bool all = std::all_of(job.gang.begin(), job.gang.end(),
                               [](const Member& member) { return member.closed; });
  if (all) BeginClosing(job, wire::STOPPED, job.reason);
}

void Controller::State::OnWorkerResult(const wire::WorkerResult& result) {
  Job* job = FindJob(result.job_id());
  if (job == nullptr || !job->live() || job->epoch != result.epoch()) return;
  constexpr size_t kMaxResults = 64;
  if (job->results.size() < kMaxResults) job->results.push_back(result.json());
}

void Controller::State::SetState(Job& job, wire::JobState state, const std::string& reason) {
  if (job.state == state && job.reason == reason) return;
  // What is being stopped doesn't start running again because of what was on its way.
  if (job.state == wire::STOPPING && !IsTerminal(state)) return;
  if (job.retreat.has_value() && state == wire::RUNNING) return;
  job.state = state;
  job.reason = reason;
  auto* notice = AddNotice(job.spec.id()).mutable_state();
  notice->set_state(state);
  notice->set_reason(reason);
}

// The outcome is certain; what is left is to see the newest snapshot safe on disk.
void Controller::State::BeginClosing(Job& job, wire::JobState outcome, const std::string& reason) {
  if (job.closing.has_value()) return;
  const std::string& id = job.spec.id();
  job.closing = outcome;
  job.reason = reason;
  if (outcome == wire::SUCCEEDED && job.highest_step > 0) ResolveFaults(job, now_);
  job.undecided = false;
  job.retreat.reset();
  job.data.Close(job.epoch);
  job.ledger.EnterAll(wire::FINISH, now_);
  for (const auto kind : {DeadlineKind::kDecide, DeadlineKind::kStart, DeadlineKind::kProgress,
                          DeadlineKind::kStop, DeadlineKind::kRetreat}) {
    deadlines_.Clear(kind, id);
  }
  deadlines_.Set(DeadlineKind::kClose, id, now_ + kCloseLimit);
  CloseIfSaved(job);
}

void Controller::State::CloseIfSaved(Job& job) {
  if (!job.closing.has_value() || !job.live()) return;
  bool reachable = false;
  for (const Member& member : job.gang) {
    const Node* node = FindNode(member.node);
    reachable = reachable || (node != nullptr && !node->lost);
  }
  for (const auto& [id, memory] : job.left) {
    const Node* node = FindNode(id);
    reachable = reachable || (job.gang.empty() && node != nullptr && !node->lost &&
                              node->incarnation == memory.incarnation);
  }
  const bool saved = job.memory_step <= job.committed_step;
  if (saved && reachable && !CopiesSettled(job)) {
    return deadlines_.Set(DeadlineKind::kClose, job.spec.id(), now_ + kCopyLimit);
  }
  if (saved || SaveFailed(job) || !reachable) Finalize(job);
}

void Controller::State::Finalize(Job& job) {
  wire::JobState outcome = *job.closing;
  std::string reason = job.reason;
  if (job.memory_step > job.committed_step) {
    // What went wrong with an older one is no reason for this one.
    const bool known = !job.save_failure.empty() && job.save_failure_step >= job.memory_step;
    const std::string why = known ? job.save_failure : "it did not reach the disk in time";
    reason += "; the newest snapshot, step " + std::to_string(job.memory_step) +
              ", is not on disk: " + why;
    if (outcome == wire::SUCCEEDED) outcome = wire::FAILED;
  }
  if (!job.spec.snapshot().copy_to().empty() && job.copied_step < job.committed_step) {
    const std::string why =
        job.copy_failure.empty() ? "it was not copied in time" : job.copy_failure;
    reason += "; the newest checkpoint, step " + std::to_string(job.committed_step) +
              ", is on disk but not at " + job.spec.snapshot().copy_to() + ": " + why;
  }
  const std::string& id = job.spec.id();
  job.ended = now_;
  job.ledger.Finish(now_);
  deadlines_.Clear(DeadlineKind::kClose, id);
  for (const Member& member : job.gang) {
    wire::Command command;
    command.mutable_forget_job()->set_job_id(id);
    Send(member.node, std::move(command));
  }
  for (const auto& [node, memory] : job.left) {
    wire::Command command;
    command.mutable_forget_job()->set_job_id(id);
    Send(node, std::move(command));
  }
  Release(job);
  job.target.clear();
  pending_.erase(id);
  scheduler_.End(JobId(id), now_);
  SetState(job, outcome, reason);
  Schedule();
  for (auto& [other_id, other] : jobs_) TryDecide(other);
}

}  // namespace longhaul::runtime
