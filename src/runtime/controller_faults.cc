// Faults: evidence comes in, a cause is settled on, the cheapest sufficient action is taken.
#include <algorithm>
#include <csignal>
#include <utility>

#include "runtime/internal/controller_state.h"

namespace longhaul::runtime {

using internal::DeadlineKind;

namespace {

// A worker that exits with a code may only have lost its peer: so long is better evidence awaited.
constexpr Duration kEvidenceWindow = std::chrono::milliseconds(40);
// And so long may a silent node's death stay unknown after its peers failed.
constexpr Duration kLateEvidence = std::chrono::seconds(15);
constexpr size_t kMaxMessage = 2000;
// Once a worker has ended well, the others have so long for what they do without steps.
constexpr Duration kEndLimit = std::chrono::minutes(10);
// So long is a worker's failure held against later ones on its node.
constexpr Duration kWorkerFaultMemory = std::chrono::hours(24);
constexpr size_t kMostWorkerFaults = 16;

// Signals that a program brings upon itself.
bool IsProgramError(int signal) {
  return signal == SIGSEGV || signal == SIGABRT || signal == SIGBUS || signal == SIGFPE ||
         signal == SIGILL;
}

std::string DescribeExit(const wire::WorkerExited& exited) {
  std::string what = "worker " + std::to_string(exited.rank());
  if (exited.signal() != 0) {
    what += " was ended by signal " + std::to_string(exited.signal());
    if (exited.signal() == SIGKILL) what += " (SIGKILL)";
    if (exited.signal() == SIGSEGV) what += " (segmentation fault)";
  } else {
    what += " exited with code " + std::to_string(exited.exit_code());
  }
  if (!exited.message().empty()) what += ": " + exited.message().substr(0, kMaxMessage);
  return what;
}

// As in the grammar of --inject (spec/fault_plan.h), where agents count from 1.
std::string DescribePlanned(const wire::PlannedFault& fault) {
  const std::string at = " at step " + std::to_string(fault.step());
  switch (fault.kind()) {
    case wire::PlannedFault::KILL_WORKER:
      return "kill worker " + std::to_string(fault.target()) + at;
    case wire::PlannedFault::KILL_AGENT:
      return "kill agent " + std::to_string(fault.target() + 1) + at;
    case wire::PlannedFault::KILL_NODE:
      return "kill node " + std::to_string(fault.target() + 1) + at;
    case wire::PlannedFault::STOP_WORKER:
      return "stop worker " + std::to_string(fault.target()) + " for " +
             ToString(Duration(fault.duration_ns())) + at;
    default:
      return "a fault" + at;
  }
}

double BadRankSeconds(const wire::Ledger& ledger) {
  double sum = 0;
  for (const auto& entry : ledger.categories()) {
    switch (entry.category()) {
      case wire::LOST_WORK:
      case wire::DETECT:
      case wire::DIAGNOSE:
      case wire::REPAIR:
      case wire::START_UP_TIME:
      case wire::RENDEZVOUS_TIME:
      case wire::RESTORE_TIME:
        sum += entry.rank_seconds();
        break;
      default:
        break;
    }
  }
  return sum;
}

}  // namespace

void Controller::State::OnWorkerExited(const wire::Event& event) {
  const auto& exited = event.worker_exited();
  Job* job = FindJob(exited.job_id());
  if (job == nullptr || !job->live() || job->closing.has_value()) return;
  const auto index = MemberOf(*job, event.node());
  if (!index.has_value() || exited.rank() / job->spec.processes_per_node() != *index) return;
  const bool killed_by_us = exited.asked() || job->state == wire::STOPPING;
  const Evidence evidence{
      exited.signal() != 0 && !IsProgramError(exited.signal()) ? "process" : "error",
      DescribeExit(exited),
      event.node(),
      static_cast<int32_t>(exited.rank()),
      InstantFromNanoseconds(
          exited.error_at_ns() > 0 ? std::min(exited.error_at_ns(), event.at_ns()) : event.at_ns()),
      exited.signal() != 0};
  if (exited.epoch() < job->epoch) {
    if (!killed_by_us && exited.epoch() == job->failed_epoch) ImproveCause(*job, evidence);
    return;
  }
  if (exited.epoch() != job->epoch || killed_by_us) return;
  if (exited.signal() == 0 && exited.exit_code() == 0) {
    Member& member = job->gang[*index];
    member.ranks_done = std::min(member.ranks_done + 1, job->spec.processes_per_node());
    uint32_t done = 0;
    for (const Member& other : job->gang) done += other.ranks_done;
    if (done == job->world()) {
      BeginClosing(*job, wire::SUCCEEDED, "all workers ended well");
    } else {
      WatchProgress(*job);
    }
    return;
  }
  NoteFault(*job, evidence);
  TryDecide(*job);
}

void Controller::State::OnWorkersFailedToStart(const wire::Event& event) {
  const auto& failed = event.workers_failed_to_start();
  size_t index = 0;
  Job* job = CurrentJob(event, failed.job_id(), failed.epoch(), &index);
  if (job == nullptr || job->closing.has_value() || job->state == wire::STOPPING) return;
  const std::string what = "workers did not start on " + event.node() + ": " + failed.reason();
  if (failed.permanent()) {
    SendKill(*job, Duration(0), what);
    return BeginClosing(*job, wire::FAILED, what);
  }
  NoteFault(*job, {"start", what, event.node(), -1, InstantFromNanoseconds(event.at_ns()), true});
  TryDecide(*job);
}

void Controller::State::NoteFault(Job& job, const Evidence& evidence) {
  if (job.closing.has_value() || job.state == wire::STOPPING) return;
  // Its workers are ending anyway.
  if (job.retreat && job.retreat->stage != internal::Retreat::Stage::kSnapshot) return;
  if (job.gang.empty()) return;
  if (job.undecided) return ImproveCause(job, evidence);
  const std::string& id = job.spec.id();
  const Instant happened = std::min(evidence.happened, now_);
  wire::Fault& fault = IsRealCauseOfNewest(job, evidence) ? job.faults.back() : AddFault(job);
  fault.set_class_name(evidence.class_name);
  fault.set_what(evidence.what);
  fault.set_node(evidence.node);
  fault.set_rank(evidence.rank);
  fault.set_injected(WasInjected(job, evidence));
  if (fault.happened_at_ns() == 0) {
    fault.set_happened_at_ns(ToNanoseconds(happened));
    fault.set_detected_at_ns(ToNanoseconds(now_));
    job.bad_before.back() = BadRankSeconds(job.ledger.Summary(happened));
    job.interval.ObserveFailure();
  }
  job.failed_epoch = job.epoch;
  job.undecided = true;
  job.data.Close(job.epoch);
  job.ledger.EnterAll(wire::DETECT, happened);
  job.ledger.EnterAll(wire::DIAGNOSE, now_);
  deadlines_.Clear(DeadlineKind::kProgress, id);
  deadlines_.Clear(DeadlineKind::kStart, id);
  deadlines_.Set(DeadlineKind::kDecide, id, evidence.certain ? now_ : now_ + kEvidenceWindow);
  // The others can't go on without it; what they know is in their arenas.
  SendKill(job, Duration(0), evidence.what);
  SetState(job, wire::RECOVERING, evidence.what);
  NoticeFault(job, fault);
}

wire::Fault& Controller::State::AddFault(Job& job) {
  wire::Fault& fault = job.faults.emplace_back();
  fault.set_number(static_cast<uint32_t>(job.faults.size()));
  job.highest_before.push_back(job.highest_step);
  job.bad_before.push_back(0);
  return fault;
}

// A node that dies in silence is missed only after its peers have failed: what looked like their
// error was its death.
bool Controller::State::IsRealCauseOfNewest(const Job& job, const Evidence& evidence) const {
  if (evidence.class_name != "node" || job.first_unresolved >= job.faults.size()) return false;
  const wire::Fault& newest = job.faults.back();
  return newest.class_name() == "error" && newest.first_step_at_ns() == 0 &&
         ToNanoseconds(now_) - newest.happened_at_ns() < kLateEvidence.count();
}

// Later evidence about the newest fault: the earliest failure and the surest kind of it is the
// cause.
void Controller::State::ImproveCause(Job& job, const Evidence& evidence) {
  if (job.faults.empty()) return;
  wire::Fault& fault = job.faults.back();
  const bool is_certain = fault.class_name() == "node" || fault.class_name() == "process" ||
                          fault.class_name() == "hang" || fault.class_name() == "storage";
  const bool earlier = ToNanoseconds(evidence.happened) < fault.happened_at_ns();
  const bool better =
      (evidence.certain && !is_certain) || (evidence.certain == is_certain && earlier);
  if (!better && !(evidence.class_name == "node" && fault.node() == evidence.node)) return;
  fault.set_class_name(evidence.class_name);
  fault.set_what(evidence.what);
  fault.set_node(evidence.node);
  fault.set_rank(evidence.rank);
  fault.set_injected(WasInjected(job, evidence));
  if (earlier) fault.set_happened_at_ns(ToNanoseconds(evidence.happened));
  if (evidence.certain && job.undecided) deadlines_.Set(DeadlineKind::kDecide, job.spec.id(), now_);
  NoticeFault(job, fault);
}

// Restarts the gang if the newest fault's cause is settled and every node of it can be had.
void Controller::State::TryDecide(Job& job) {
  if (!job.undecided || !job.live() || job.closing.has_value()) return;
  const std::string& id = job.spec.id();
  Touch(job);
  wire::Fault& fault = job.faults.back();
  const auto waits = deadlines_.all().find({DeadlineKind::kDecide, id});
  if (waits != deadlines_.all().end() && waits->second > now_) return;
  deadlines_.Clear(DeadlineKind::kDecide, id);
  const bool own_fault = fault.class_name() == "error" || fault.class_name() == "start";
  // Where no steps are reported, to have lasted is the only sign of progress.
  const bool lasted =
      job.never_reported() && job.gang[0].started && now_ - job.started >= options_.start_limit;
  if (lasted) job.fruitless = 0;
  if (own_fault && job.fruitless + 1 >= options_.fruitless_restarts) {
    SendKill(job, Duration(0), fault.what());
    return BeginClosing(job, wire::FAILED,
                        "failed " + std::to_string(job.fruitless + 1) +
                            " times without a step in between; the last time: " + fault.what());
  }
  if (job.restarts >= job.spec.max_restarts()) {
    SendKill(job, Duration(0), fault.what());
    return BeginClosing(job, wire::FAILED,
                        "out of restarts (" + std::to_string(job.spec.max_restarts()) +
                            " allowed); the last fault: " + fault.what());
  }
  if (job.retreat.has_value()) return StopForRetreat(job);
  for (const Member& member : job.gang) {
    const Node* node = FindNode(member.node);
    // It comes back or is given up, and then we are here again.
    if (node != nullptr && !node->connected && !node->lost) {
      job.awaited = member.node;
      return;
    }
  }
  const size_t nodes = job.gang.size();
  if (!TakeTarget(job)) return;
  BlameNode(job, fault);
  if (own_fault) ++job.fruitless;
  ++job.restarts;
  const uint64_t reached = job.step;
  OpenEpoch(job);
  fault.set_decided_at_ns(ToNanoseconds(now_));
  fault.set_from_step(job.restore.step());
  fault.set_lost_steps(fault.lost_steps() + reached - std::min(reached, job.restore.step()));
  const char* tier = internal::TierName(job.restore.tier());
  fault.set_action("restart from " + std::string(tier) + " at step " +
                   std::to_string(job.restore.step()));
  if (job.restore.step() == 0) {
    fault.set_action(job.never_reported() ? "restart all workers" : "restart from the beginning");
  }
  if (job.gang.size() != nodes) {
    fault.set_action("go on with " + std::to_string(job.gang.size()) + " nodes in place of " +
                     std::to_string(nodes) + ", " + fault.action());
  } else if (fault.class_name() == "node") {
    fault.set_action("replace the node, " + fault.action());
  }
  NoticeFault(job, fault);
}

// Copies that do not verify and workers that cannot be started are the node's own; a node that is
// lost has been counted when it was lost. What a worker dies of is mostly its program: a second
// death on the node counts, in a gang of several nodes or of another job.
void Controller::State::BlameNode(const Job& job, const wire::Fault& fault) {
  Node* node = fault.node().empty() || fault.injected() ? nullptr : FindNode(NodeId(fault.node()));
  if (node == nullptr) return;
  const std::string& kind = fault.class_name();
  if (kind == "storage" || kind == "start") {
    return scheduler_.Fault(fault.node(), fault.what(), now_);
  }
  if (kind != "process" && kind != "error") return;
  auto& faults = node->worker_faults;
  std::erase_if(faults, [&](const auto& past) { return past.at + kWorkerFaultMemory < now_; });
  const bool again = std::any_of(faults.begin(), faults.end(), [&](const auto& past) {
    return past.job != job.spec.id() || past.wide;
  });
  if (again) {
    faults.clear();
    return scheduler_.Fault(fault.node(), fault.what(), now_);
  }
  if (faults.size() == kMostWorkerFaults) faults.erase(faults.begin());
  faults.push_back({now_, job.spec.id(), job.gang.size() > 1});
}

void Controller::State::OnStartOverdue(Job& job) {
  std::string late;
  for (const Member& member : job.gang) {
    if (member.phase < wire::PhaseEntered::STEPPING) late += " " + member.node.value();
  }
  NoteFault(job, {"hang",
                  "no first step within " + ToString(options_.start_limit) +
                      " of the start; late:" + (late.empty() ? " nobody in particular" : late),
                  "", -1, now_, true});
  TryDecide(job);
}

void Controller::State::WatchProgress(Job& job) {
  if (!job.reports_steps || job.undecided || job.state != wire::RUNNING) return;
  const bool done = job.spec.total_steps() > 0 && job.step >= job.spec.total_steps();
  if (done) return deadlines_.Clear(DeadlineKind::kProgress, job.spec.id());
  Duration patience =
      std::max(options_.hang_floor,
               DurationFromSeconds(ToSeconds(job.slowest_report) * options_.hang_factor));
  const bool ends = std::any_of(job.gang.begin(), job.gang.end(),
                                [](const Member& member) { return member.ranks_done > 0; });
  if (ends) patience = std::max(patience, kEndLimit);
  deadlines_.Set(DeadlineKind::kProgress, job.spec.id(), now_ + patience);
}

// First the workers are asked how they are, and stopped ones continued; if that doesn't help
// either, the epoch is restarted.
// A worker that says what it waits for is not hung: the clock of its silence starts again. Only one
// that waits without end is, and then it is known for whom.
void Controller::State::OnWorkerWaits(const wire::Event& event) {
  const auto& waits = event.worker_waits();
  size_t index = 0;
  Job* job = CurrentJob(event, waits.job_id(), waits.epoch(), &index);
  if (job == nullptr || job->undecided || job->state != wire::RUNNING) return;
  const Duration waited(waits.waited_ns());
  const std::string wait = "worker " + std::to_string(waits.rank()) +
                           " waits for a slot to take a snapshot of step " +
                           std::to_string(waits.step()) + " (" + waits.holders() + ")";
  if (job->slot_wait.empty()) {
    Say(waits.job_id(), wire::MessageNotice::WARNING, wait + "; training stands still meanwhile");
  }
  job->slot_wait = wait;
  if (waited > options_.slot_wait_limit) return;
  job->probes = 0;
  WatchProgress(*job);
}

void Controller::State::OnProgressOverdue(Job& job) {
  const std::string silence = "no step for " + ToString(now_ - job.last_progress) +
                              (job.slot_wait.empty() ? "" : ": " + job.slot_wait);
  if (++job.probes >= 2) {
    NoteFault(job,
              {"hang", silence + "; all workers are restarted", "", -1, job.last_progress, true});
    return TryDecide(job);
  }
  Say(job.spec.id(), wire::MessageNotice::WARNING, silence + ": asking the workers how they are");
  for (const Member& member : job.gang) {
    wire::Command command;
    auto* probe = command.mutable_probe_workers();
    probe->set_job_id(job.spec.id());
    probe->set_epoch(job.epoch);
    probe->set_resume_stopped(true);
    Send(member.node, std::move(command));
  }
  WatchProgress(job);
}

void Controller::State::OnWorkersProbed(const wire::Event& event) {
  const auto& probed = event.workers_probed();
  size_t index = 0;
  Job* job = CurrentJob(event, probed.job_id(), probed.epoch(), &index);
  if (job == nullptr || job->undecided || job->state != wire::RUNNING) return;
  for (const auto& worker : probed.workers()) {
    if (!worker.resumed()) continue;
    const Evidence evidence{"hang",
                            "worker " + std::to_string(worker.rank()) + " was stopped (state T)",
                            event.node(),
                            static_cast<int32_t>(worker.rank()),
                            job->last_progress,
                            true};
    wire::Fault& fault = AddFault(*job);
    fault.set_class_name(evidence.class_name);
    fault.set_what(evidence.what);
    fault.set_node(evidence.node);
    fault.set_rank(evidence.rank);
    fault.set_injected(WasInjected(*job, evidence));
    fault.set_action("continued it with SIGCONT");
    fault.set_from_step(job->step);
    fault.set_happened_at_ns(ToNanoseconds(job->last_progress));
    fault.set_detected_at_ns(ToNanoseconds(now_));
    fault.set_decided_at_ns(ToNanoseconds(now_));
    job->bad_before.back() = BadRankSeconds(job->ledger.Summary(job->last_progress));
    // The time it stood still was nobody's step.
    job->ledger.EnterAll(wire::DETECT, job->last_progress);
    job->ledger.EnterAll(wire::LOST_WORK, now_);
    NoticeFault(*job, fault);
  }
}

void Controller::State::InjectDueFaults(Job& job) {
  for (int i = 0; i < job.spec.faults_size(); ++i) {
    const wire::PlannedFault& fault = job.spec.faults(i);
    if (job.injected[static_cast<size_t>(i)] || fault.step() > job.step) continue;
    size_t member = fault.target();
    if (fault.kind() == wire::PlannedFault::KILL_WORKER ||
        fault.kind() == wire::PlannedFault::STOP_WORKER) {
      member = fault.target() / job.spec.processes_per_node();
    }
    job.injected[static_cast<size_t>(i)] = true;
    if (fault.kind() == wire::PlannedFault::KILL_CONTROLLER) {
      Say(job.spec.id(), wire::MessageNotice::WARNING, "injected: the controller kills itself");
      out_.kill_controller = true;
      continue;
    }
    if (member >= job.gang.size()) continue;
    Say(job.spec.id(), wire::MessageNotice::WARNING, "injected: " + DescribePlanned(fault));
    wire::Command command;
    auto* inject = command.mutable_inject_fault();
    inject->set_job_id(job.spec.id());
    inject->set_epoch(job.epoch);
    *inject->mutable_fault() = fault;
    Send(job.gang[member].node, std::move(command));
  }
}

// Whether a planned fault that has been injected explains the evidence and no fault yet.
bool Controller::State::WasInjected(const Job& job, const Evidence& evidence) const {
  int planned = 0;
  for (int i = 0; i < job.spec.faults_size(); ++i) {
    if (!job.injected[static_cast<size_t>(i)]) continue;
    const auto& fault = job.spec.faults(i);
    const bool worker = fault.kind() == wire::PlannedFault::KILL_WORKER ||
                        fault.kind() == wire::PlannedFault::STOP_WORKER;
    if (worker && evidence.rank == static_cast<int32_t>(fault.target())) ++planned;
    const bool on_node =
        fault.target() < job.gang.size() && job.gang[fault.target()].node.value() == evidence.node;
    const bool node = fault.kind() == wire::PlannedFault::KILL_AGENT ||
                      fault.kind() == wire::PlannedFault::KILL_NODE;
    if (node && evidence.class_name == "node" && on_node) ++planned;
  }
  for (const wire::Fault& fault : job.faults) {
    const bool same = evidence.rank >= 0 ? fault.rank() == evidence.rank
                                         : fault.rank() < 0 && fault.node() == evidence.node;
    if (same && fault.injected()) --planned;
  }
  return planned > 0;
}

void Controller::State::StampFaults(Job& job, Stage stage, Instant at) {
  const int64_t at_ns = ToNanoseconds(at);
  for (size_t i = job.first_unresolved; i < job.faults.size(); ++i) {
    wire::Fault& fault = job.faults[i];
    if (fault.decided_at_ns() == 0) continue;
    switch (stage) {
      case Stage::kStarted:
        if (fault.started_at_ns() == 0) fault.set_started_at_ns(at_ns);
        break;
      case Stage::kRendezvous:
        if (fault.rendezvous_at_ns() == 0) fault.set_rendezvous_at_ns(at_ns);
        break;
      case Stage::kRestoring:
        if (fault.restoring_at_ns() == 0) fault.set_restoring_at_ns(at_ns);
        break;
      case Stage::kStepping:
        if (fault.stepping_at_ns() == 0) fault.set_stepping_at_ns(at_ns);
        break;
      case Stage::kFirstStep:
        if (fault.first_step_at_ns() == 0) fault.set_first_step_at_ns(at_ns);
        break;
    }
  }
}

// A fault is over with the first step beyond the highest one before it; where that was the run's
// last, with that step done again or the run's end; for jobs that never reported a step, with the
// workers' start.
void Controller::State::ResolveFaults(Job& job, Instant at) {
  while (job.first_unresolved < job.faults.size()) {
    const size_t i = job.first_unresolved;
    wire::Fault& fault = job.faults[i];
    const bool reports = job.highest_step > 0;
    const bool at_end = job.closing == wire::SUCCEEDED ||
                        (job.spec.total_steps() > 0 && job.step >= job.spec.total_steps());
    const bool over = reports ? job.step > job.highest_before[i] || at_end : job.gang[0].started;
    if (fault.decided_at_ns() == 0 || !over) return;
    if (reports) fault.set_new_step_at_ns(ToNanoseconds(at));
    const double bad = BadRankSeconds(job.ledger.Summary(at)) - job.bad_before[i];
    fault.set_lost_rank_seconds(std::max(bad, 0.0));
    ++job.first_unresolved;
    NoticeFault(job, fault);
  }
}

void Controller::State::NoticeFault(const Job& job, const wire::Fault& fault) {
  *AddNotice(job.spec.id()).mutable_fault() = fault;
}

}  // namespace longhaul::runtime
