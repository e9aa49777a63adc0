#include "runtime/controller/handlers/hang_suspicions.h"

#include <algorithm>
#include <set>
#include <string>
#include <utility>

#include "runtime/hang_limits.h"

namespace longhaul::runtime::controller {

namespace {

using Stage = SuspectedHang::Stage;

std::string RestartText(const JobRecord& job) {
  const Duration limit = HangSettingsOf(job.spec().hang()).no_step;
  if (limit >= HangSettings::kForEver) return "they are not restarted (--no-step-limit never)";
  return "all workers are restarted if this lasts for " + ToString(limit);
}

// The limit of HangHandler::TakeIdle for a job of which a worker has ended. Another limit, that of
// a job without steps, may restart it too.
std::string RestartAtEndText(const JobRecord& job) {
  const HangSettings settings = HangSettingsOf(job.spec().hang());
  const bool steps = job.progress.reports_steps();
  const Duration limit = steps ? std::max(settings.idle, settings.no_step) : settings.idle;
  if (limit < HangSettings::kForEver) {
    return "all workers are restarted if none is active for " + ToString(limit);
  }
  return std::string("inactivity does not restart them (--") +
         (settings.idle < HangSettings::kForEver ? "no-step" : "idle") + "-limit never)";
}

}  // namespace

// Before the last step, and again once a worker has ended. The limits of HangHandler count then
// too.
bool HangSuspicions::Applies(const JobRecord& job) const {
  if (job.spec().workload().built_in() || job.life.state() != proto::RUNNING ||
      job.faults.undecided() || job.placement.leaving()) {
    return false;
  }
  if (job.group.a_rank_has_ended()) return !job.suspicion.end_named_in(job.life.attempt());
  return job.progress.reports_steps() && job.hang.has_learned() &&
         (job.total_steps() == 0 || job.progress.step() < job.total_steps());
}

void HangSuspicions::Watch(JobRecord& job) {
  job.suspicion.Cancel();
  if (!Applies(job)) return context_.deadlines.Clear(DeadlineKind::kSuspicion, job.id());
  SetDeadline(job, Patience(job));
}

void HangSuspicions::OnWorkerExited(const proto::Event& event) {
  const auto& exited = event.worker_exited();
  if (exited.exit_code() != 0 || exited.signal() != 0 || exited.asked()) return;
  size_t place = 0;
  JobRecord* job = context_.CurrentJob(event, exited.job_id(), exited.attempt(), &place);
  if (job == nullptr || !job->group.a_rank_has_ended()) return;
  job->suspicion.NoteEnd(job->life.attempt(), exited.rank(), context_.now);
  Watch(*job);
}

void HangSuspicions::WatchEnd(JobRecord& job) {
  if (job.group.a_rank_has_ended()) Watch(job);
}

// After the end of a worker another one may write the last checkpoint, for which it may pause.
Duration HangSuspicions::Patience(const JobRecord& job) const {
  const Duration usual = SuspectedHang::Patience(job.hang.slowest_report());
  return job.group.a_rank_has_ended() ? std::max(usual, SuspectedHang::kEndPatience) : usual;
}

void HangSuspicions::SetDeadline(const JobRecord& job, Duration after) {
  context_.deadlines.Set(DeadlineKind::kSuspicion, job.id(), context_.now + after);
}

void HangSuspicions::OnDue(JobRecord& job) {
  SuspectedHang& suspicion = job.suspicion;
  const bool of_another = suspicion.attempt() != job.life.attempt();
  if (!Applies(job)) return suspicion.Cancel();
  if (suspicion.stage() == Stage::kWatching || of_another) {
    suspicion.BeginProbe(job.life.attempt());
    Probe(job, false);
    return SetDeadline(job, SuspectedHang::kBetween);
  }
  if (suspicion.stage() == Stage::kProbed) {
    Evidence hang;
    hang.what = "no activity of any worker for " + ToString(SuspectedHang::kBetween);
    std::set<std::string> nodes;
    for (const Member& member : job.group.members()) {
      if (member.ranks_done < job.local()) nodes.insert(member.node.value());
    }
    suspicion.BeginStacks(std::move(hang), std::move(nodes));
    Probe(job, true);
    return SetDeadline(job, SuspectedHang::kStacksLimit);
  }
  if (suspicion.stage() == Stage::kStacks) Conclude(job);
}

void HangSuspicions::Probe(const JobRecord& job, bool with_stacks) {
  for (const Member& member : job.group.members()) {
    if (member.ranks_done >= job.local()) continue;  // its workers have ended
    proto::Command command;
    auto* probe = command.mutable_probe_workers();
    probe->set_job_id(job.id());
    probe->set_attempt(job.life.attempt());
    probe->set_with_stacks(with_stacks);
    context_.Send(member.node, std::move(command));
  }
}

void HangSuspicions::OnWorkersProbed(const proto::Event& event) {
  const auto& probed = event.workers_probed();
  size_t place = 0;
  JobRecord* job = context_.CurrentJob(event, probed.job_id(), probed.attempt(), &place);
  if (job == nullptr || job->suspicion.attempt() != probed.attempt()) return;
  if (job->suspicion.Take(event.node(), probed)) Conclude(*job);
}

// If a worker was active, it is looked at again later: it may compute first, and then stand still.
void HangSuspicions::Conclude(JobRecord& job) {
  context_.deadlines.Clear(DeadlineKind::kSuspicion, job.id());
  const std::optional<Evidence> hang = job.suspicion.Conclude();
  if (!Applies(job)) return;
  if (!hang.has_value() || !job.suspicion.has_workers()) return SetDeadline(job, Patience(job));
  if (job.group.a_rank_has_ended()) {
    job.suspicion.NoteEndNamed(job.life.attempt());
    return context_.AddMessage(
        job.id(), proto::MessageNotification::WARNING,
        job.suspicion.DescribeEnd(context_.now) + "; " + hang->what + "; " + RestartAtEndText(job));
  }
  context_.AddMessage(job.id(), proto::MessageNotification::WARNING,
                      "no step for " + ToString(context_.now - job.hang.last_progress()) + " and " +
                          hang->what + "; " + RestartText(job));
}

}  // namespace longhaul::runtime::controller
