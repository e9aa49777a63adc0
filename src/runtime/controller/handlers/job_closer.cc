#include "runtime/controller/handlers/job_closer.h"

#include <algorithm>

#include "runtime/controller/handlers/checkpoint_handler.h"
#include "runtime/controller/handlers/fault_handler.h"
#include "runtime/controller/placement.h"

namespace longhaul::runtime::controller {

namespace {

// The last checkpoint may take this long to reach the disk once the workers are gone.
constexpr Duration kCloseLimit = std::chrono::seconds(60);
// The same for a whole checkpoint over a network.
constexpr Duration kCopyLimit = std::chrono::hours(1);
// Killed workers may take this long, beyond their grace, to be reported as gone.
constexpr Duration kStopLimit = std::chrono::seconds(5);

}  // namespace

void JobCloser::OnJobStopRequested(const proto::JobStopRequested& request) {
  const std::string reason = request.reason().empty() ? "asked to stop" : request.reason();
  JobRecord* job = context_.jobs.Find(request.job_id());
  if (job != nullptr) return Stop(*job, reason);
  if (context_.releases.IsArray(request.job_id())) StopArray(request.job_id(), reason);
}

// Scheduling after each element would start elements that are stopped a moment later. So the others
// are served once, after the last one.
void JobCloser::StopArray(const std::string& array, const std::string& reason) {
  ending_many_ = true;
  const uint32_t count = context_.releases.Find(array)->count();
  for (uint32_t index = 0; index < count; ++index) {
    Stop(*context_.jobs.Find(ElementIdOf(array, index)), reason);
  }
  ending_many_ = false;
  ServeOthers();
}

void JobCloser::Stop(JobRecord& job, const std::string& reason) {
  if (!job.live() || job.closing()) return;
  const std::string& id = job.id();
  // Three cases: a job that the scheduler has never received, one without workers, and one whose
  // workers have to end first. A job that is closing keeps the outcome that was decided first.
  if (context_.releases.IsHeld(id)) return EndHeld(job, reason);
  if (job.group.empty()) return BeginClosing(job, proto::STOPPED, reason);
  job.faults.Dismiss();
  job.placement.EndVacate();
  context_.deadlines.Clear(DeadlineKind::kVacate, id);
  context_.SetState(job, proto::STOPPING, reason);
  for (size_t i = 0; i < job.group.size(); ++i) {
    // A lost node will not report that its workers have ended.
    if (!context_.nodes.IsAlive(job.group.member(i).node)) job.group.Close(i);
  }
  context_.SendKill(job, context_.options.stop_grace, reason);
  // An attempt that failed just before may be closed already; agents report that once.
  CloseIfStopped(job);
  if (job.closing()) return;
  context_.deadlines.Clear(DeadlineKind::kProgress, id);
  context_.deadlines.Clear(DeadlineKind::kStart, id);
  context_.deadlines.Set(DeadlineKind::kStop, id,
                         context_.now + context_.options.stop_grace + kStopLimit);
}

void JobCloser::OnAttemptClosed(const proto::Event& event) {
  const auto& closed = event.attempt_closed();
  size_t place = 0;
  JobRecord* job = context_.CurrentJob(event, closed.job_id(), closed.attempt(), &place);
  if (job == nullptr) return;
  job->group.Close(place);
  CloseIfStopped(*job);
  placement_.AdvanceVacate(*job);
  // A check of the nodes waits for the end of the workers.
  faults_.TryDecide(*job);
}

void JobCloser::CloseIfStopped(JobRecord& job) {
  if (!job.live() || job.life.state() != proto::STOPPING) return;
  if (job.group.all_closed()) BeginClosing(job, proto::STOPPED, job.life.reason());
}

void JobCloser::BeginClosing(JobRecord& job, proto::JobState outcome, const std::string& reason) {
  if (job.closing()) return;
  job.life.BeginClosing(outcome, reason);
  // A fault whose lost steps reached to the end of the run is over with the run's success: there is
  // no later step that could resolve it.
  if (outcome == proto::SUCCEEDED && job.progress.highest_step() > 0) {
    faults_.ResolveFaults(job, context_.now);
  }
  job.faults.Dismiss();
  job.placement.EndVacate();
  job.data.Close(job.life.attempt());
  if (outcome == proto::SUCCEEDED) {
    job.ledger.EndSteps(context_.now);
  } else {
    job.ledger.EnterAll(proto::FINISH, context_.now);
  }
  faults_.ChargeOpenFaults(job);
  for (const auto kind : {DeadlineKind::kDecide, DeadlineKind::kStart, DeadlineKind::kProgress,
                          DeadlineKind::kStop, DeadlineKind::kVacate, DeadlineKind::kRunTime}) {
    context_.deadlines.Clear(kind, job.id());
  }
  context_.deadlines.Set(DeadlineKind::kClose, job.id(), context_.now + kCloseLimit);
  checkpoints_.RetryFailed(job);
  CloseIfSaved(job);
}

// Called after each event that may have been the last one that the end waits for. The order of the
// conditions is that of the tiers: first the newest snapshot has to be on disk, then the newest
// checkpoint at the second tier. If no node can be reached, neither will happen.
void JobCloser::CloseIfSaved(JobRecord& job) {
  if (!job.closing() || !job.live()) return;
  const auto& members = job.group.members();
  const bool reachable =
      members.empty() ? job.snapshots.SomeLeftAlive(context_.nodes)
                      : std::any_of(members.begin(), members.end(), [this](const Member& member) {
                          return context_.nodes.IsAlive(member.node);
                        });
  const uint64_t newest = job.snapshots.memory_step();
  const bool saved = newest <= job.snapshots.committed_step();
  if (saved && reachable && !checkpoints_.CopiesSettled(job)) {
    return context_.deadlines.Set(DeadlineKind::kClose, job.id(), context_.now + kCopyLimit);
  }
  if (saved || !reachable || !checkpoints_.CanBeSaved(job)) Finalize(job);
}

// Such a job has no nodes, no deadline and no record in the scheduler, so nothing has to be
// released. NoteEnded marks its dependants as affected.
void JobCloser::EndHeld(JobRecord& job, const std::string& reason) {
  job.life.BeginClosing(proto::STOPPED, reason);
  job.ledger.EnterAll(proto::FINISH, context_.now);
  job.life.End(context_.now);
  job.ledger.Finish(context_.now);
  context_.SetState(job, proto::STOPPED, reason);
  context_.releases.NoteEnded(job.id(), /*succeeded=*/false);
}

void JobCloser::ServeOthers() {
  if (ending_many_) return;
  placement_.Schedule();
  for (auto& [id, other] : context_.jobs.all()) faults_.TryDecide(other);
}

void JobCloser::Finalize(JobRecord& job) {
  proto::JobState outcome = *job.life.closing();
  std::string reason = job.life.reason();
  const uint64_t newest = job.snapshots.memory_step();
  const uint64_t committed = job.snapshots.committed_step();
  if (newest > committed) {
    const std::string known = job.writer.WhyNotSaved(newest);
    reason += "; the newest snapshot, step " + std::to_string(newest) +
              ", is not on disk: " + (known.empty() ? "it did not reach the disk in time" : known);
    // A job whose last state is not on disk has not produced its result.
    if (outcome == proto::SUCCEEDED) outcome = proto::FAILED;
  }
  const std::string& copy_to = job.spec().snapshot().copy_to();
  if (!copy_to.empty() && job.copier.copied_step() < committed) {
    const std::string& known = job.copier.failure();
    reason += "; the newest checkpoint, step " + std::to_string(committed) +
              ", is on disk but not at " + copy_to + ": " +
              (known.empty() ? "it was not copied in time" : known);
  }
  const std::string& id = job.id();
  job.life.End(context_.now);
  job.ledger.Finish(context_.now);
  context_.deadlines.Clear(DeadlineKind::kClose, id);
  for (const Member& member : job.group.members()) context_.SendForget(id, member.node);
  for (const auto& [node, memory] : job.snapshots.left()) context_.SendForget(id, node);
  // Slots are returned before the scheduler receives the end, which may assign them at once.
  placement_.Release(job);
  context_.scheduler.End(JobId(id), context_.now);
  context_.SetState(job, outcome, reason);
  context_.releases.NoteEnded(id, outcome == proto::SUCCEEDED);
  ServeOthers();
}

}  // namespace longhaul::runtime::controller
