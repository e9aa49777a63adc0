// Gangs that leave their nodes in good order: a snapshot, the end of the workers, the snapshot on
// disk where the next nodes need it there, then the queue or the other nodes.
#include <algorithm>
#include <utility>

#include "runtime/controller/handlers/attempt_starter.h"
#include "runtime/controller/handlers/job_closer.h"
#include "runtime/controller/handlers/run_time_limits.h"
#include "runtime/controller/placement.h"

namespace longhaul::runtime::controller {

namespace {

// Agents may take this long to report that killed workers are gone.
constexpr Duration kStopLimit = std::chrono::seconds(5);
// A snapshot may take this long to reach the disk before its job moves without it.
constexpr Duration kSaveLimit = std::chrono::seconds(60);

using Stage = Vacate::Stage;
using Then = Vacate::Then;

// A command that has never reported a step may still want to end well.
Duration GraceOf(const JobRecord& job, const ControllerOptions& options) {
  return job.never_reported() ? options.stop_grace : Duration(0);
}

}  // namespace

void Placement::BeginVacate(JobRecord& job, Then then, const std::string& reason) {
  if (job.closing() || job.life.state() == proto::STOPPING) return;  // it leaves anyway
  if (job.placement.leaving()) {
    // A job that has to wait stays so: the scheduler has given its nodes away.
    const bool ends = job.placement.vacate()->then == Then::kEnd;
    if (then == Then::kEnd) job.placement.EndInstead(reason);
    if (then == Then::kQueue && !ends) job.placement.QueueInstead(reason);
    return AdvanceVacate(job);
  }
  job.placement.BeginVacate(then, reason);
  job.writer.ForgetSaveFailure();
  // The built-in trainer takes snapshots, and so does a command that has taken one. For others the
  // job would wait for the whole patience and then leave without a new state all the same.
  const bool takes_snapshots = job.life.state() == proto::RUNNING &&
                               (job.spec().workload().built_in() || job.snapshots.snapshots() > 0);
  if (!takes_snapshots) return StopForVacate(job);
  context_.SetState(job, proto::LEAVING, "takes a snapshot: " + reason);
  for (const Member& member : job.group.members()) SendVacateCommand(job, member.node);
  // The snapshot follows the very next step, so the limit covers at least a few of the slowest
  // recent steps.
  context_.deadlines.Set(
      DeadlineKind::kVacate, job.id(),
      context_.now + std::max(context_.scheduler.configuration().snapshot_patience,
                              job.hang.slowest_report() * 4));
}

void Placement::SendVacateCommand(const JobRecord& job, const NodeId& node) {
  const Vacate& vacate = *job.placement.vacate();
  if (vacate.stage == Stage::kSnapshot) {
    // An agent that reconnects receives the command of the present stage again, from
    // NodeHandler::ReconcileJob.
    return context_.SendInterval(job, node, 1);  // after the very next step
  }
  proto::Command command;
  auto* kill = command.mutable_kill_workers();
  kill->set_job_id(job.id());
  kill->set_attempt(job.life.attempt());
  kill->set_grace_ns(GraceOf(job, context_.options).count());
  kill->set_reason(vacate.reason);
  context_.Send(node, std::move(command));
}

void Placement::StopForVacate(JobRecord& job) {
  const std::string& id = job.id();
  job.placement.SetStage(Stage::kStopping);
  const Then then = job.placement.vacate()->then;
  if (job.faults.undecided()) {
    // A fault on the way spares the job the snapshot, and nothing else changes.
    job.faults.Decide(then == Then::kQueue ? "stop and wait in the queue"
                      : then == Then::kEnd ? "stop"
                                           : "continue with other nodes",
                      context_.now);
    context_.AddFaultNotification(job, job.faults.newest());
  }
  // From here on the exit of a worker is expected. The lease closes as well, so that a late report
  // of this attempt changes no training state.
  job.faults.Dismiss();
  job.data.Close(job.life.attempt());
  job.ledger.EnterAll(then == Then::kQueue ? proto::QUEUE
                      : then == Then::kEnd ? proto::FINISH
                                           : proto::REPAIR,
                      context_.now);
  for (const auto kind : {DeadlineKind::kDecide, DeadlineKind::kStart, DeadlineKind::kProgress}) {
    context_.deadlines.Clear(kind, id);
  }
  context_.deadlines.Set(DeadlineKind::kVacate, id,
                         context_.now + GraceOf(job, context_.options) + kStopLimit);
  context_.SetState(job, proto::LEAVING, job.placement.vacate()->reason);
  for (size_t i = 0; i < job.group.size(); ++i) {
    const Member& member = job.group.member(i);
    // No report will come from a lost node. Without this, the stage would last until its deadline.
    if (!context_.nodes.IsAlive(member.node)) job.group.Close(i);
    if (!member.closed) SendVacateCommand(job, member.node);
  }
  AdvanceVacate(job);
}

// Each stage falls through to the next one if its condition holds already, because no further event
// may follow. `vacate` is a reference to the job's own record, so it shows a stage as soon as
// SetStage sets it.
void Placement::AdvanceVacate(JobRecord& job) {
  if (!job.placement.leaving() || !job.live() || job.closing()) return;
  const std::string& id = job.id();
  const Vacate& vacate = *job.placement.vacate();
  if (vacate.stage == Stage::kStopping) {
    if (!job.group.all_closed()) return;
    job.placement.SetStage(Stage::kSaving);
    FreeDevices(job);
    // A job that is moved to make room has left it now.
    if (vacate.then == Then::kGoOn) context_.scheduler.Stopped(JobId(id), context_.now);
    context_.deadlines.Set(DeadlineKind::kVacate, id, context_.now + kSaveLimit);
  }
  if (vacate.stage == Stage::kSaving) {
    // A job that goes back to its queue does not block here: the write continues from the memory of
    // the nodes that it left (SnapshotTracker::left). Without a live member nothing can reach the
    // disk any more, so the job does not block either.
    const bool waits = vacate.then == Then::kGoOn &&
                       job.snapshots.NeedsDisk(context_.ViewOf(job), job.placement.target()) &&
                       !job.writer.IsLost(job.snapshots.memory_step());
    const auto& members = job.group.members();
    const bool reachable = std::any_of(members.begin(), members.end(), [&](const Member& member) {
      return context_.nodes.IsAlive(member.node);
    });
    if (waits && reachable) return;
    job.placement.SetStage(Stage::kReady);
    context_.deadlines.Clear(DeadlineKind::kVacate, id);
  }
  if (vacate.stage != Stage::kReady) return;
  if (vacate.then == Then::kEnd) return EndVacated(job);
  if (vacate.then == Then::kQueue) return FinishVacate(job);
  const size_t before = job.group.size();
  if (!TakeTarget(job)) return;
  if (job.group.size() == before) job.placement.CountMove();
  starter_.OpenAttempt(job);
}

void Placement::BeginEnding(JobRecord& job, const std::string& reason) {
  BeginVacate(job, Then::kEnd, reason);
}

// The workers have ended: the job ends once its newest snapshot is on disk.
void Placement::EndVacated(JobRecord& job) {
  const std::string reason = job.placement.vacate()->reason;
  closer_.BeginClosing(job, proto::STOPPED, reason);
}

// The job waits again, with its state where it was: in the memories of the nodes it had, and on
// disk once it is there.
void Placement::FinishVacate(JobRecord& job) {
  const std::string reason = job.placement.vacate()->reason;
  // A job that has used up its time while it left its nodes does not wait for others in vain.
  if (run_times_.IsOver(job)) return run_times_.OnOverdue(job);
  job.snapshots.RememberSpreads(context_.ViewOf(job));
  // LeaveAll reads the group, so it precedes Clear; FreeSlots needs the members' claims for the
  // same reason. scheduler.Stopped comes last, when the job no longer uses the nodes.
  FreeSlots(job);
  job.snapshots.LeaveAll(context_.ViewOf(job));
  job.group.Clear();
  job.ledger.Resize(job.spec().nodes(), proto::QUEUE, context_.now);
  NoteUsage(job);
  job.placement.FinishVacate();
  job.placement.EndHolding(context_.now);
  context_.deadlines.Clear(DeadlineKind::kRunTime, job.id());
  context_.SetState(job, proto::QUEUED, "stopped: " + reason);
  FreeLeft(job);
  context_.scheduler.Stopped(JobId(job.id()), context_.now);
}

void Placement::OnVacateOverdue(JobRecord& job) {
  if (!job.placement.leaving()) return;
  const std::string& id = job.id();
  switch (job.placement.vacate()->stage) {
    case Stage::kSnapshot:
      context_.AddMessage(id, proto::MessageNotification::WARNING,
                          "no snapshot in time; it leaves without a new one");
      return StopForVacate(job);
    case Stage::kStopping:
      // A disconnected node cannot report, and its workers may still run. Its slots must not be
      // given away before it is back or lost, so the deadline is set again.
      for (const Member& member : job.group.members()) {
        const Node* node = context_.nodes.Find(member.node);
        if (node != nullptr && !node->connected && !node->lost && !member.closed) {
          // It comes back or is given up.
          return context_.deadlines.Set(DeadlineKind::kVacate, id, context_.now + kStopLimit);
        }
      }
      job.group.CloseAll();
      return AdvanceVacate(job);
    // The snapshot remains in memory, and the write may still complete. Only this move no longer
    // depends on it.
    case Stage::kSaving:
      context_.AddMessage(
          id, proto::MessageNotification::WARNING,
          "the newest snapshot did not reach the disk in time; it continues from an older "
          "one");
      job.placement.SetStage(Stage::kReady);
      return AdvanceVacate(job);
    case Stage::kReady:
      return;
  }
}

}  // namespace longhaul::runtime::controller
