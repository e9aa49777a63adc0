#include "runtime/controller/handlers/fault_handler.h"

#include <algorithm>
#include <csignal>

#include "base/units.h"
#include "runtime/controller/handlers/attempt_starter.h"
#include "runtime/controller/handlers/hang_handler.h"
#include "runtime/controller/handlers/health/node_checks.h"
#include "runtime/controller/handlers/job_closer.h"
#include "runtime/controller/handlers/numeric_faults.h"
#include "runtime/controller/handlers/spare_nodes.h"
#include "runtime/controller/placement.h"

namespace longhaul::runtime::controller {

namespace {

// A worker that exits with a code may only have lost its peer: better evidence is awaited this
// long.
constexpr Duration kEvidenceWindow = std::chrono::milliseconds(40);
// An agent that is started again on its node is back in this time.
constexpr Duration kReturnOfFailedGang = std::chrono::milliseconds(250);
constexpr size_t kMaxMessage = 2000;
// Counted against a node that a gang leaves. Two put it on probation.
constexpr int kFailuresOfALeftNode = 2;

// Signals that a program brings upon itself. All others, SIGKILL among them, come from outside:
// from the kernel's OOM killer, an operator or an injected fault.
bool IsProgramError(int signal) {
  return signal == SIGSEGV || signal == SIGABRT || signal == SIGBUS || signal == SIGFPE ||
         signal == SIGILL;
}

std::string DescribeExit(const proto::WorkerExited& exited) {
  std::string what = "worker " + std::to_string(exited.rank());
  if (!exited.reached_limit().empty()) return what + " was ended: " + exited.reached_limit();
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

// `error_at_ns` is the time in the worker's error file. It is earlier than the exit, and of several
// failed workers the earliest error is the cause. A time after the event cannot be right.
Evidence EvidenceOf(const proto::Event& event) {
  const auto& exited = event.worker_exited();
  const bool at_limit = !exited.reached_limit().empty();
  const bool from_outside = exited.signal() != 0 && !IsProgramError(exited.signal()) && !at_limit;
  const int64_t at_ns =
      exited.error_at_ns() > 0 ? std::min(exited.error_at_ns(), event.at_ns()) : event.at_ns();
  return {from_outside ? proto::FaultClass::kProcess : proto::FaultClass::kError,
          DescribeExit(exited),
          event.node(),
          static_cast<int32_t>(exited.rank()),
          InstantFromNanoseconds(at_ns),
          exited.signal() != 0 || at_limit};
}

// Of a worker that was killed because another one had failed, but had stated its own error before.
Evidence OwnErrorOf(const proto::Event& event) {
  const auto& exited = event.worker_exited();
  return {proto::FaultClass::kError,
          "worker " + std::to_string(exited.rank()) +
              " failed: " + exited.message().substr(0, kMaxMessage),
          event.node(),
          static_cast<int32_t>(exited.rank()),
          InstantFromNanoseconds(std::min(exited.error_at_ns(), event.at_ns())),
          false};
}

}  // namespace

bool WillReportSteps(const JobRecord& job) {
  const proto::Workload& workload = job.spec().workload();
  return workload.built_in() || !workload.step_pattern().empty() || !job.never_reported();
}

void FaultHandler::OnWorkerExited(const proto::Event& event) {
  const auto& exited = event.worker_exited();
  JobRecord* job = context_.jobs.Find(exited.job_id());
  if (job == nullptr || !job->live() || job->closing()) return;
  const auto place = job->group.PlaceOf(event.node());
  if (!place.has_value() || exited.rank() / job->local() != *place) return;
  const bool killed_by_us = exited.asked() || job->life.state() == proto::STOPPING;
  const uint64_t attempt = job->life.attempt();
  if (exited.was_stopped() && exited.attempt() == job->faults.failed_attempt()) {
    NoteStopped(*job, event);
  }
  if (exited.asked() && exited.error_at_ns() > 0 &&
      exited.attempt() == job->faults.failed_attempt()) {
    return ImproveCause(*job, OwnErrorOf(event));
  }
  // A report of an earlier attempt cannot start a fault, but it can still show the cause of the
  // newest one: a slow node reports its dead worker after the restart has begun.
  if (exited.attempt() < attempt) {
    const bool of_newest = exited.attempt() == job->faults.failed_attempt();
    if (!killed_by_us && of_newest) TakeMoreEvidence(*job, EvidenceOf(event));
    return;
  }
  if (exited.attempt() != attempt || killed_by_us) return;
  if (!exited.reached_limit().empty() && exited.ends_job()) {
    const std::string what = DescribeExit(exited);
    context_.SendKill(*job, Duration(0), what);
    return closer_.BeginClosing(*job, proto::FAILED, what + ", on " + event.node());
  }
  if (exited.signal() != 0 || exited.exit_code() != 0) {
    NoteFault(*job, EvidenceOf(event));
    return TryDecide(*job);
  }
  // Exit code 0 ends the job only when all ranks have ended. Until then the rest may still work,
  // for example on an evaluation, within a longer limit.
  job->idle.Forget(exited.rank());
  if (job->group.EndRank(*place, job->local())) {
    closer_.BeginClosing(*job, proto::SUCCEEDED, "all workers ended well");
  } else {
    hangs_.WatchProgress(*job);
  }
}

// The restart after one fault ends another one before its limit, so this may be all that shows it.
void FaultHandler::NoteStopped(const JobRecord& job, const proto::Event& event) {
  const uint32_t rank = event.worker_exited().rank();
  if (job.faults.newest().rank() == static_cast<int32_t>(rank)) return;
  context_.AddMessage(job.id(), proto::MessageNotification::WARNING,
                      "worker " + std::to_string(rank) + " on " + event.node() +
                          " was stopped (state T) when the workers were ended");
}

void FaultHandler::OnWorkersFailedToStart(const proto::Event& event) {
  const auto& failed = event.workers_failed_to_start();
  size_t place = 0;
  JobRecord* job = context_.CurrentJob(event, failed.job_id(), failed.attempt(), &place);
  if (job == nullptr || job->closing() || job->life.state() == proto::STOPPING) return;
  const std::string what = "workers did not start on " + event.node() + ": " + failed.reason();
  // A missing program or a start that makes no sense fails in the same way each time, so it is not
  // restarted.
  if (failed.permanent()) {
    context_.SendKill(*job, Duration(0), what);
    return closer_.BeginClosing(*job, proto::FAILED, what);
  }
  NoteFault(*job, {proto::FaultClass::kStart, what, event.node(), -1,
                   InstantFromNanoseconds(event.at_ns()), true});
  TryDecide(*job);
}

void FaultHandler::OnLogLimited(const proto::Event& event) {
  const proto::LogLimited& limited = event.log_limited();
  const JobRecord* job = context_.jobs.Find(limited.job_id());
  if (job == nullptr || !job->live() || !job->group.PlaceOf(event.node()).has_value()) return;
  const std::string size = ToString(Bytes(static_cast<int64_t>(limited.limit_bytes())));
  const std::string log = "the log of worker " + std::to_string(limited.rank()) + " on " +
                          event.node() + " has more than " + size + " (limits.log_size)";
  const std::string effect =
      limited.error().empty()
          ? "the agent frees its middle and keeps the beginning and the newest part"
          : "it cannot be limited there: " + limited.error();
  context_.AddMessage(limited.job_id(), proto::MessageNotification::WARNING, log + "; " + effect);
}

void FaultHandler::NoteFault(JobRecord& job, const Evidence& evidence) {
  if (job.closing() || job.life.state() == proto::STOPPING) return;
  // The workers of a gang that leaves are ending anyway.
  const auto& vacate = job.placement.vacate();
  if (vacate && vacate->stage != Vacate::Stage::kSnapshot) return;
  if (job.group.empty()) return;
  if (job.faults.undecided()) return TakeMoreEvidence(job, evidence);
  const std::string& id = job.id();
  const Instant now = context_.now;
  const Instant happened = std::min(evidence.happened, now);
  const bool is_new = job.faults.Take(evidence, job.spec(), job.group, job.life.attempt(),
                                      job.progress.highest_step(), now);
  if (is_new) {
    job.faults.SetBadBefore(BadTimeOf(job.ledger.Summary(happened)));
    job.interval.ObserveFailure();
  }
  job.data.Close(job.life.attempt());
  // The time from the failure to its report, and from the report to the decision, are separate
  // categories; neither belongs to a step.
  job.ledger.EnterAll(proto::DETECT, happened);
  job.ledger.EnterAll(proto::DIAGNOSE, now);
  context_.deadlines.Clear(DeadlineKind::kProgress, id);
  context_.deadlines.Clear(DeadlineKind::kStart, id);
  // Certain evidence is decided in the same step. Other evidence may be the consequence of a
  // failure whose report is still on its way.
  context_.deadlines.Set(DeadlineKind::kDecide, id, evidence.certain ? now : now + kEvidenceWindow);
  // The others can't continue without it; what they know is in their arenas.
  context_.SendKill(job, Duration(0), evidence.what);
  context_.SetState(job, proto::RECOVERING, evidence.what);
  context_.AddFaultNotification(job, job.faults.newest());
}

// One failure makes the peers fail too. These failures are evidence of one fault, not faults of
// their own.
void FaultHandler::TakeMoreEvidence(JobRecord& job, const Evidence& evidence) {
  if (!job.faults.IsAnother(evidence)) return ImproveCause(job, evidence);
  for (const proto::Fault* fault :
       job.faults.AddAnother(evidence, job.spec(), job.group, context_.now)) {
    context_.AddFaultNotification(job, *fault);
  }
  job.interval.ObserveFailure();
  if (job.faults.undecided()) {
    context_.deadlines.Set(DeadlineKind::kDecide, job.id(), context_.now);
  }
}

void FaultHandler::ImproveCause(JobRecord& job, const Evidence& evidence) {
  if (!job.faults.Improve(evidence, job.spec(), job.group)) return;
  if (evidence.certain && job.faults.undecided()) {
    context_.deadlines.Set(DeadlineKind::kDecide, job.id(), context_.now);
  }
  context_.AddFaultNotification(job, job.faults.newest());
}

void FaultHandler::TryDecideAll() {
  for (auto& [id, job] : context_.jobs.all()) TryDecide(job);
}

// Called after every event that may make a decision possible, so it first checks whether one is
// due. Touch marks the job although the caller may have reached it without a look-up.
void FaultHandler::TryDecide(JobRecord& job) {
  if (!job.faults.undecided() || !job.live() || job.closing()) return;
  const std::string& id = job.id();
  context_.jobs.Touch(job);
  const auto waits = context_.deadlines.all().find({DeadlineKind::kDecide, id});
  if (waits != context_.deadlines.all().end() && waits->second > context_.now) return;
  context_.deadlines.Clear(DeadlineKind::kDecide, id);
  numbers_.ForgetBadStates(job);
  const bool has_lasted = job.never_reported() && job.group.first_started() &&
                          context_.now - job.group.started_at() >= context_.options.start_limit;
  const auto give_up = job.faults.WhyGiveUp(
      {job.spec().max_restarts(), context_.options.fruitless_restarts, has_lasted});
  if (give_up.has_value()) {
    context_.SendKill(job, Duration(0), job.faults.newest().what());
    return closer_.BeginClosing(job, proto::FAILED, *give_up);
  }
  if (job.placement.leaving()) return placement_.StopForVacate(job);
  for (const Member& member : job.group.members()) {
    const Node* node = context_.nodes.Find(member.node);
    // It comes back or is given up, and then the decision is tried again.
    if (node != nullptr && !node->connected && !node->lost) {
      if (node->cut && spares_.Count(job) > 0) HastenLoss(member.node);
      return job.faults.Await(member.node);
    }
  }
  if (numbers_.EndsJob(job) || checks_.Await(job)) return;
  LeaveFailingNode(job);
  if (job.faults.undecided()) Restart(job);
}

// The grace period of a node is for workers that continue without their connection. Those of a gang
// that has failed do not, so an idle node takes the place unless the agent comes back at once.
void FaultHandler::HastenLoss(const NodeId& node) {
  const Instant at = context_.now + kReturnOfFailedGang;
  const auto grace = context_.deadlines.all().find({DeadlineKind::kNodeGrace, node.value()});
  if (grace == context_.deadlines.all().end() || grace->second <= at) return;
  context_.deadlines.Set(DeadlineKind::kNodeGrace, node.value(), at);
}

// What fails again and again on one node while the others only wait for it is the node's, such as a
// device that is broken or that hangs. If an idle node can have its place, the gang goes on there.
void FaultHandler::LeaveFailingNode(JobRecord& job) {
  const NodeId id(job.faults.RepeatedNode());
  const Node* node = context_.nodes.Find(id);
  if (node == nullptr || node->avoided || !node->reachable()) return;
  if (job.group.size() < 2 || !job.group.contains(id.value()) || !WillReportSteps(job)) return;
  // Others that run there would have to leave it too.
  if (node->used_milli > job.accelerators_milli()) return;
  const std::string what = job.faults.newest().what();
  if (spares_.Count(job) == 0 || !Leave(job, {id})) return;
  context_.AddMessage(job.id(), proto::MessageNotification::WARNING,
                      "the gang leaves " + id.value() +
                          ", on which it has failed twice without a step in between: " + what);
  for (int i = 0; i < kFailuresOfALeftNode; ++i) {
    context_.scheduler.Fault(id.value(), what, context_.now);
  }
  context_.UpdateScheduler(id);
  placement_.Schedule();
}

void FaultHandler::LeaveFaultyNodes(JobRecord& job, const std::vector<FaultyNode>& faulty) {
  std::vector<NodeId> leaving;
  const size_t least = job.spec().minimum_nodes();
  const bool elastic = least > 0 && least < job.group.size();
  // With an idle node, or as an elastic gang without the node.
  const size_t most = spares_.Count(job) + (elastic ? job.group.size() - least : 0);
  for (const FaultyNode& each : faulty) {
    if (leaving.size() < most) leaving.push_back(each.node);
  }
  const bool left = !leaving.empty() && Leave(job, leaving);
  for (const FaultyNode& each : faulty) {
    const std::string& name = each.node.value();
    const bool leaves = left && std::ranges::count(leaving, each.node) > 0;
    std::string what = "the gang leaves " + name;
    if (!leaves) what = "the gang stays on " + name + ", because no idle node can have its place";
    what += " (" + each.evidence + ")";
    if (!each.keeps_work) {
      context_.nodes.Cordon(each.node, true, /*drain=*/false);
      context_.AddNodeNotification(each.node);
      what += "; it gets no more jobs until `longhaul nodes uncordon " + name + "`";
    } else {
      for (int i = 0; i < kFailuresOfALeftNode && leaves; ++i) {
        context_.scheduler.Fault(name, each.evidence, context_.now);
      }
    }
    context_.AddMessage(job.id(), proto::MessageNotification::WARNING, std::move(what));
    context_.UpdateScheduler(each.node);
  }
  placement_.Schedule();
}

// To the scheduler the nodes are down until others have their places. All at once, because a gang
// that is complete starts.
bool FaultHandler::Leave(JobRecord& job, const std::vector<NodeId>& nodes) {
  const auto avoid = [&](bool avoided) {
    for (const NodeId& node : nodes) {
      context_.nodes.Avoid(node, avoided);
      context_.UpdateScheduler(node);
    }
  };
  avoid(true);
  placement_.Schedule();
  for (const NodeId& node : nodes) context_.nodes.Avoid(node, false);
  const std::vector<std::string> gang = context_.scheduler.NodesOf(JobId(job.id()));
  const bool left = !gang.empty() && std::ranges::count(gang, "") == 0 &&
                    std::ranges::none_of(nodes, [&](const NodeId& node) {
                      return std::ranges::count(gang, node.value()) > 0;
                    });
  if (!left) {
    avoid(false);
    placement_.Schedule();
  }
  return left;
}

void FaultHandler::Restart(JobRecord& job) {
  const size_t nodes = job.group.size();
  // Without a complete gang the fault stays undecided. TakeTarget has noted which node the job
  // waits for, and the arrival of a node calls TryDecide again.
  if (!placement_.TakeTarget(job)) return;
  BlameNode(job);
  job.faults.CountRestart();
  // Read before OpenAttempt, which sets the progress back to the restored step.
  const uint64_t reached = job.progress.step();
  starter_.OpenAttempt(job);
  const bool by_itself = job.restores_by_itself();
  const std::string& node = job.faults.newest().node();
  job.faults.DecideRestart(
      {job.snapshots.restore(), reached, by_itself, job.never_reported() || by_itself, nodes,
       job.group.size(), !node.empty() && !job.group.contains(node)},
      context_.now);
  context_.AddFaultNotification(job, job.faults.newest());
  for (const proto::Fault* fault : job.faults.OthersOfNewest()) {
    context_.AddFaultNotification(job, *fault);
  }
}

// Copies that do not verify and workers that cannot be started are the node's own; a node that is
// lost has been counted when it was lost. What a worker dies of is mostly its program, so there the
// node table decides.
void FaultHandler::BlameNode(const JobRecord& job) {
  const proto::Fault& fault = job.faults.newest();
  const NodeId id(fault.node());
  if (fault.node().empty() || fault.injected() || context_.nodes.Find(id) == nullptr) return;
  bool counts = false;
  switch (job.faults.newest_class()) {
    case proto::FaultClass::kStorage:
    case proto::FaultClass::kStart:
      counts = true;
      break;
    case proto::FaultClass::kProcess:
    case proto::FaultClass::kError:
      counts = context_.nodes.NoteWorkerFault(id, job.id(), job.group.size() > 1, context_.now);
      break;
    case proto::FaultClass::kNode:
    case proto::FaultClass::kHang:
    case proto::FaultClass::kNumeric:  // its replay decides whether the node is the cause
    case proto::FaultClass::kDevice:   // the node is cordoned
      break;
  }
  if (counts) context_.scheduler.Fault(fault.node(), fault.what(), context_.now);
}

void FaultHandler::ResolveFaults(JobRecord& job, Instant at) {
  if (!job.faults.has_unresolved()) return;
  JobFaults::Outlook outlook;
  outlook.step = job.progress.step();
  outlook.reports = job.progress.highest_step() > 0;
  outlook.at_end = job.life.closing() == proto::SUCCEEDED ||
                   (job.total_steps() > 0 && outlook.step >= job.total_steps());
  outlook.workers_started = !job.group.empty() && job.group.first_started();
  const BadTime bad = BadTimeOf(job.ledger.Summary(at));
  while (const proto::Fault* fault = job.faults.ResolveNext(outlook, bad, at)) {
    context_.AddFaultNotification(job, *fault);
  }
}

void FaultHandler::ChargeOpenFaults(JobRecord& job) {
  if (!job.faults.has_unresolved()) return;
  const BadTime bad = BadTimeOf(job.ledger.Summary(context_.now));
  for (const proto::Fault* fault : job.faults.ChargeOpen(bad)) {
    context_.AddFaultNotification(job, *fault);
  }
}

}  // namespace longhaul::runtime::controller
