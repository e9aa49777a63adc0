#include "runtime/controller/handlers/snapshot_handler.h"

#include <algorithm>
#include <map>
#include <string>
#include <vector>

#include "runtime/controller/handlers/checkpoint_handler.h"
#include "runtime/controller/handlers/fault_handler.h"
#include "runtime/controller/handlers/job_closer.h"
#include "runtime/controller/placement.h"

namespace longhaul::runtime::controller {

// What a new agent has of jobs without a place on the node, or any agent of jobs that have ended,
// is of no use to any restart from here, so its memory is released at once.
void SnapshotHandler::TakeMemory(const NodeId& id, std::optional<uint64_t> life_before) {
  const Node& node = context_.nodes.at(id);
  std::map<std::string, std::vector<const proto::AgentJoined::HeldSnapshot*>> by_job;
  for (const auto& held : node.facts.held()) by_job[held.job_id()].push_back(&held);
  for (const auto& [name, held] : by_job) {
    JobRecord* job = context_.jobs.Find(name);
    const bool live = job != nullptr && job->live();
    const auto place = live ? job->group.PlaceOf(id.value()) : std::nullopt;
    if (!live || (life_before.has_value() && !place.has_value())) {
      context_.SendForget(name, id);
      continue;
    }
    // A node that was replaced while it had no connection may get another place later.
    if (!place.has_value() && !job->snapshots.HasLeft(id)) continue;
    job->snapshots.TakeCopies(context_.ViewOf(*job), node, job->life.attempt(), held);
    if (!place.has_value()) continue;
    const uint64_t step =
        job->snapshots.Adopt(context_.ViewOf(*job), *place, node,
                             life_before.value_or(node.incarnation), job->life.attempt(), held);
    if (step == 0 || !life_before.has_value()) continue;
    context_.AddMessage(name, proto::MessageNotification::INFO,
                        "the new agent of " + id.value() +
                            " has adopted the memory of the one before: step " +
                            std::to_string(step) + " is there");
  }
}

void SnapshotHandler::OnSnapshotSealed(const proto::Event& event) {
  const auto& sealed = event.snapshot_sealed();
  size_t place = 0;
  JobRecord* job = context_.CurrentJob(event, sealed.job_id(), sealed.attempt(), &place);
  if (job == nullptr || sealed.step() == 0) return;
  // Only of steps under this attempt's lease, and not back in time.
  if (sealed.step() >= job->group.lease().end_step()) return;
  const uint64_t newest = job->snapshots.memory_step();
  // Workers that have no step left to do seal the restored state again.
  const bool again = sealed.step() == job->snapshots.restore().step() &&
                     job->snapshots.AttemptOfComplete(sealed.step()) != sealed.attempt();
  if (sealed.step() < newest || (sealed.step() == newest && !again)) return;
  if (job->numeric.IsBad(sealed.step())) return;
  if (sealed.non_finite()) {
    if (job->faults.undecided()) return;
    return context_.AddMessage(sealed.job_id(), proto::MessageNotification::ERROR,
                               "the snapshot of step " + std::to_string(sealed.step()) + " on " +
                                   event.node() +
                                   " has NaN or infinity: nothing will be restored from it");
  }
  const Seconds blocked(ToSeconds(Duration(sealed.blocked_ns())));
  if (job->faults.undecided()) {
    // It comes late, from a node that had no connection when the fault was noted. The snapshot has
    // replaced older ones in the node's memory, so a restart must not count on these.
    if (!sealed.whole_job())
      job->snapshots.NoteInMemory(context_.ViewOf(*job), place, sealed.step());
    return;
  }
  if (sealed.whole_job()) {
    job->snapshots.SealAll(sealed.step());
    job->snapshots.NoteWay(sealed);
    return Complete(*job, sealed.step(), blocked, sealed.bytes());
  }
  job->writer.NoteContents(place, sealed, job->local(), job->world());
  if (!job->snapshots.Seal(context_.ViewOf(*job), place, sealed.step())) return;
  job->snapshots.NoteWay(sealed);
  Complete(*job, sealed.step(), blocked, sealed.bytes() * job->group.size());
}

// Every rank holds the state after `step`: from here on it can be gone back to.
void SnapshotHandler::Complete(JobRecord& job, uint64_t step, Seconds blocked, uint64_t bytes) {
  job.snapshots.Complete(step, job.life.attempt());
  job.writer.ForgetFailures(step);
  // A commit that the lease doesn't cover changes nothing; the event was checked against it.
  if (!job.data.Commit(job.life.attempt(), step).ok()) return;
  // Steps are settled only up to what is on disk: a step that is only in memory may still be lost
  // with its nodes.
  job.ledger.Settle(std::min(step, job.snapshots.committed_step()));
  auto* notification = context_.AddNotification(job.id()).mutable_snapshot();
  notification->set_step(step);
  notification->set_tier("memory");
  notification->set_seconds(blocked.count());
  notification->set_bytes(bytes);
  job.interval.ObserveSnapshot(blocked);
  context_.scheduler.Snapshot(JobId(job.id()), context_.now);
  checkpoints_.OrderWrite(job);
  if (!job.placement.leaving()) return UpdateInterval(job);
  // This is the snapshot for which the gang's departure has waited.
  if (job.placement.vacate()->stage == Vacate::Stage::kSnapshot) placement_.StopForVacate(job);
}

void SnapshotHandler::UpdateInterval(JobRecord& job) {
  if (!job.interval.Update()) return;
  const uint64_t steps = job.interval.steps();
  context_.AddMessage(
      job.id(), proto::MessageNotification::INFO,
      "a snapshot every " + std::to_string(steps) + " steps from now on: " + job.interval.reason());
  for (const Member& member : job.group.members()) {
    context_.SendInterval(job, member.node, steps);
  }
}

void SnapshotHandler::OnCopyReceived(const proto::Event& event) {
  const auto& received = event.copy_received();
  const NodeId holder(event.node());
  JobRecord* job = context_.jobs.Find(received.job_id());
  if (job == nullptr || !job->live() || received.step() == 0) return;
  // A node that the job has left for long has been ordered to release its copies.
  if (!job->group.contains(event.node()) && !job->snapshots.HasLeft(holder)) return;
  const size_t place = received.first_rank() / job->local();
  const bool whole = received.ranks() == job->local() && received.first_rank() % job->local() == 0;
  if (!whole || place >= job->group.size()) return;
  const uint64_t attempt = job->life.attempt();
  if (received.attempt() == attempt && received.step() >= job->group.lease().end_step()) return;
  job->snapshots.NoteCopy(place, context_.nodes.at(holder), received.attempt(), received.step(),
                          attempt);
}

void SnapshotHandler::OnSnapshotReplicated(const proto::Event& event) {
  const auto& replicated = event.snapshot_replicated();
  JobRecord* job = context_.jobs.Find(replicated.job_id());
  if (job == nullptr || !job->live() || !job->group.contains(event.node())) return;
  job->interval.ObserveCopy(Seconds(ToSeconds(Duration(replicated.took_ns()))));
}

void SnapshotHandler::OnSnapshotFailed(const proto::Event& event) {
  const auto& failed = event.snapshot_failed();
  JobRecord* job = context_.jobs.Find(failed.job_id());
  if (job == nullptr || !job->live()) return;
  // The order to write is closed before anything else, also for a node that is no longer in the
  // gang, because the next order depends on it.
  if (!failed.while_restoring() && failed.tier() == proto::Restore::TIER_DISK) {
    checkpoints_.WriteFailed(*job, failed, NodeId(event.node()));
    if (failed.overtaken() || !job->live()) return;
  }
  if (!failed.while_restoring() && failed.tier() == proto::Restore::TIER_SHARED) {
    return checkpoints_.CopyFailed(*job, failed);
  }
  const auto place = job->group.PlaceOf(event.node());
  if (!place.has_value()) return;
  if (failed.tier() == proto::Restore::TIER_PIECES) {
    job->snapshots.ForgetPieces(context_.ViewOf(*job), failed);
    if (failed.attempt() != job->life.attempt()) return;
    if (!failed.while_restoring()) {
      return context_.AddMessage(
          failed.job_id(), proto::MessageNotification::WARNING,
          "step " + std::to_string(failed.step()) + " was restored on " + event.node() +
              " all the same, but pieces of it are no good: " + failed.reason());
    }
  }
  if (!failed.while_restoring() && failed.tier() == proto::Restore::TIER_PEER) {
    return context_.AddMessage(failed.job_id(), proto::MessageNotification::WARNING,
                               "step " + std::to_string(failed.step()) + " of " + event.node() +
                                   " has no copy in another node's memory: " + failed.reason());
  }
  if (!failed.while_restoring()) return SaveFailed(*job, *place, failed);
  RestoreFailed(*job, *place, failed, InstantFromNanoseconds(event.at_ns()));
}

void SnapshotHandler::SaveFailed(JobRecord& job, size_t place,
                                 const proto::SnapshotFailed& failed) {
  if (job.snapshots.IsSealedAgain(failed.attempt(), failed.step())) return;
  const Member& member = job.group.member(place);
  job.writer.NoteSaveFailure(failed, member.closed || member.ranks_done == job.local());
  if (job.placement.leaving()) return placement_.AdvanceVacate(job);
  context_.AddMessage(failed.job_id(), proto::MessageNotification::ERROR,
                      "snapshot of step " + std::to_string(failed.step()) +
                          " could not be saved on " + member.node.value() + ": " + failed.reason() +
                          "; training continues");
  closer_.CloseIfSaved(job);
}

// The copy is never offered again, and the workers are restarted from another one.
void SnapshotHandler::RestoreFailed(JobRecord& job, size_t place,
                                    const proto::SnapshotFailed& failed, Instant at) {
  const GangView view = context_.ViewOf(job);
  switch (failed.tier()) {
    case proto::Restore::TIER_MEMORY:
      job.snapshots.ForgetOwn(view, place, failed.step());
      break;
    case proto::Restore::TIER_PEER:
      job.snapshots.ForgetCopy(view, place, failed.step());
      break;
    case proto::Restore::TIER_SHARED:
      job.copier.Forget(failed.step());
      break;
    case proto::Restore::TIER_PIECES:
      break;  // forgotten already
    default:
      job.snapshots.DropCommitted(failed.step());
      break;
  }
  // A report of an earlier attempt makes its copy unusable all the same, but the workers that
  // failed on it are gone, so there is nothing to restart.
  if (failed.attempt() != job.life.attempt()) return;
  const std::string& node = job.group.member(place).node.value();
  faults_.NoteFault(
      job, {proto::FaultClass::kStorage,
            "the copy in " + std::string(TierName(failed.tier())) + " of step " +
                std::to_string(failed.step()) + " is no good on " + node + ": " + failed.reason(),
            node, static_cast<int32_t>(failed.rank()), at, true});
  faults_.TryDecide(job);
}

}  // namespace longhaul::runtime::controller
