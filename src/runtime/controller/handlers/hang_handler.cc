#include "runtime/controller/handlers/hang_handler.h"

#include <algorithm>
#include <set>
#include <string>
#include <utility>

#include "runtime/controller/handlers/attempt_starter.h"
#include "runtime/controller/handlers/fault_handler.h"
#include "runtime/hang_limits.h"

namespace longhaul::runtime::controller {

namespace {

// The agent waits a second for Python and 2.5 s for native calls; the rest is for the way to it and
// back.
constexpr Duration kStacksLimit = std::chrono::seconds(5);
constexpr size_t kMostNamed = 16;  // nodes that are late

bool ResumesStopped(const JobRecord& job) {
  return HangSettingsOf(job.spec().hang()).stopped < HangSettings::kForEver;
}

// Whether all steps that the job will report are done.
bool IsAtEnd(const JobRecord& job) {
  return job.total_steps() > 0 && job.progress.step() >= job.total_steps();
}

}  // namespace

HangLimits HangHandler::LimitsOf(const JobRecord& job) const {
  const ControllerOptions& options = context_.options;
  if (job.spec().workload().built_in()) {
    return {options.hang_floor, options.hang_factor, Duration(0)};
  }
  // A script reports nothing during evaluations and checkpoints, so a missing step proves less.
  return {HangSettingsOf(job.spec().hang()).no_step, options.hang_factor,
          options.command_hang_limit};
}

void HangHandler::Probe(const JobRecord& job, const NodeId& node, bool resume_stopped,
                        bool with_stacks) {
  proto::Command command;
  auto* probe = command.mutable_probe_workers();
  probe->set_job_id(job.id());
  probe->set_attempt(job.life.attempt());
  probe->set_resume_stopped(resume_stopped);
  probe->set_with_stacks(with_stacks);
  context_.Send(node, std::move(command));
}

void HangHandler::WatchProgress(JobRecord& job) {
  // A step is made: the workers do not hang.
  job.stacks.Cancel();
  if (!job.progress.reports_steps() || job.faults.undecided()) return;
  if (job.life.state() != proto::RUNNING) return;
  if (IsAtEnd(job)) return context_.deadlines.Clear(DeadlineKind::kProgress, job.id());
  const Duration patience = job.hang.Patience(LimitsOf(job), job.group.a_rank_has_ended());
  context_.deadlines.Set(DeadlineKind::kProgress, job.id(), context_.now + patience);
}

void HangHandler::OnStartOverdue(JobRecord& job) {
  const std::vector<Member>& members = job.group.members();
  const auto last = std::ranges::min(members, {}, &Member::phase).phase;
  const bool differ = std::ranges::any_of(members, [&](auto& each) { return each.phase != last; });
  std::string late, node;
  size_t late_nodes = 0;
  for (const Member& member : members) {
    if (!differ || member.phase != last) continue;
    if (late_nodes < kMostNamed) late += " " + member.node.value();
    node = member.node.value();
    ++late_nodes;
  }
  if (late_nodes > kMostNamed)
    late += " and " + std::to_string(late_nodes - kMostNamed) + " others";
  // One alone is what the others wait for.
  if (late_nodes != 1) node.clear();
  faults_.NoteFault(
      job, {proto::FaultClass::kHang,
            "no first step " + ToString(job.starts.Elapsed(context_.now)) + " after the start; " +
                (late.empty() ? "all nodes are equally far" : "behind the others:" + late),
            node, -1, context_.now, true});
  job.starts.NoteOverdue();
  faults_.TryDecide(job);
}

// First the workers are probed, which continues stopped ones. If that does not help, the attempt is
// restarted.
void HangHandler::OnProgressOverdue(JobRecord& job) {
  if (job.stacks.pending()) return;
  const HangDetector::Overdue overdue = job.hang.TakeOverdue(LimitsOf(job), context_.now);
  if (overdue.action == HangDetector::Overdue::Action::kRestart) {
    return NoteHang(job, {proto::FaultClass::kHang, overdue.silence + "; all workers are restarted",
                          "", -1, job.hang.last_progress(), true});
  }
  if (overdue.first) {
    context_.AddMessage(job.id(), proto::MessageNotification::WARNING,
                        overdue.silence + ": the state of the workers' processes is read");
  }
  for (const Member& member : job.group.members()) {
    Probe(job, member.node, ResumesStopped(job), false);
  }
  WatchProgress(job);
}

void HangHandler::OnWorkersProbed(const proto::Event& event) {
  const auto& probed = event.workers_probed();
  size_t place = 0;
  JobRecord* job = context_.CurrentJob(event, probed.job_id(), probed.attempt(), &place);
  if (job == nullptr || job->faults.undecided() || job->life.state() != proto::RUNNING) return;
  if (job->stacks.Take(event.node(), probed)) return OnStacksOverdue(*job);
  const Instant last = job->hang.last_progress();
  for (const auto& worker : probed.workers()) {
    // Only a worker that the probe found stopped and continued is a fault. The others show that the
    // state of the processes is normal, and the next deadline decides.
    if (!worker.resumed()) continue;
    const Duration stopped = job->idle.StoppedFor(worker.rank());
    const Instant since = stopped > Duration(0) ? std::max(last, context_.now - stopped) : last;
    const std::string how_long = stopped > Duration(0) ? " for " + ToString(stopped) : "";
    const proto::Fault& fault = job->faults.AddContinued(
        {proto::FaultClass::kHang,
         "worker " + std::to_string(worker.rank()) + " was stopped (state T)" + how_long,
         event.node(), static_cast<int32_t>(worker.rank()), since, true},
        job->spec(), job->group, job->progress.step(), job->progress.highest_step(),
        BadTimeOf(job->ledger.Summary(since)), context_.now);
    // The time in which it was stopped belongs to no step.
    job->ledger.EnterAll(proto::DETECT, since);
    job->ledger.EnterAll(job->progress.reports_steps() ? proto::LOST_WORK : proto::UNREPORTED,
                         context_.now);
    context_.AddFaultNotification(*job, fault);
    // Otherwise the stop would count as a slow step, and hide the next hang for as long.
    job->hang.CountFromAtLeast(context_.now);
  }
}

// A worker that reports what it waits for is not hung: the time of its silence is counted anew.
// Only a worker that waits longer than the limit is, and then the message names what it waits for.
void HangHandler::OnWorkerWaits(const proto::Event& event) {
  const auto& waits = event.worker_waits();
  size_t place = 0;
  JobRecord* job = context_.CurrentJob(event, waits.job_id(), waits.attempt(), &place);
  if (job == nullptr || job->faults.undecided() || job->life.state() != proto::RUNNING) return;
  const std::string wait = "worker " + std::to_string(waits.rank()) +
                           " waits for a slot to take a snapshot of step " +
                           std::to_string(waits.step()) + " (" + waits.holders() + ")";
  if (job->hang.NoteWait(wait)) {
    context_.AddMessage(waits.job_id(), proto::MessageNotification::WARNING,
                        wait + "; training stands still meanwhile");
  }
  if (Duration(waits.waited_ns()) > context_.options.slot_wait_limit) return;
  job->hang.ForgetProbes();
  WatchProgress(*job);
}

void HangHandler::OnWorkerSilent(const proto::Event& event) {
  const auto& silent = event.worker_silent();
  size_t place = 0;
  JobRecord* job = context_.CurrentJob(event, silent.job_id(), silent.attempt(), &place);
  if (job == nullptr || job->faults.undecided() || silent.rank() / job->local() != place) return;
  if (silent.silent_ns() <= 0 && silent.stopped_ns() <= 0) return job->idle.Forget(silent.rank());
  const bool is_new = job->idle.Note(
      silent.rank(),
      {Duration(silent.silent_ns()), Duration(silent.stopped_ns()), silent.evidence()});
  if (job->life.state() != proto::RUNNING || job->stacks.pending()) return;
  if (silent.stopped_ns() > 0) TakeStop(*job, silent.rank(), NodeId(event.node()));
  if (silent.silent_ns() <= 0 || job->stacks.pending()) return;
  if (is_new && !job->progress.reports_steps()) WarnOfSilence(*job, silent, event.node());
  TakeIdle(*job);
}

void HangHandler::WarnOfSilence(const JobRecord& job, const proto::WorkerSilent& silent,
                                const std::string& node) {
  constexpr size_t kMostReported = 4;  // where one rank waits, all the others soon do
  if (job.idle.size() > kMostReported) return;
  const Duration limit = HangSettingsOf(job.spec().hang()).idle;
  const std::string restart =
      limit < HangSettings::kForEver
          ? "all workers are restarted if none of them is active for " + ToString(limit)
          : "it is not restarted (--idle-limit never)";
  context_.AddMessage(job.id(), proto::MessageNotification::WARNING,
                      "worker " + std::to_string(silent.rank()) + " on " + node +
                          " has shown no activity for " + ToString(Duration(silent.silent_ns())) +
                          " (" + silent.evidence() + "); it reports no steps; " + restart);
}

void HangHandler::TakeStop(JobRecord& job, uint32_t rank, const NodeId& node) {
  const Duration limit = HangSettingsOf(job.spec().hang()).stopped;
  switch (job.idle.TakeStop(rank, limit)) {
    case IdleWorkers::StopAction::kContinue:
      return Probe(job, node, true, false);
    case IdleWorkers::StopAction::kWait:
      return;
    case IdleWorkers::StopAction::kRestart: {
      const Duration stopped = job.idle.StoppedFor(rank);
      return NoteHang(job,
                      {proto::FaultClass::kHang,
                       "worker " + std::to_string(rank) + " is stopped (state T) for " +
                           ToString(stopped) + " although it was continued before",
                       node.value(), static_cast<int32_t>(rank), context_.now - stopped, true});
    }
  }
}

// While one worker is active, the others may wait for its evaluation, its checkpoint or the
// compilation of its model. So only a gang that is idle as a whole hangs. The limit without steps
// is long, because such a command may be idle as intended.
void HangHandler::TakeIdle(JobRecord& job) {
  const Duration idle = job.idle.AllIdle(job.world() - job.group.ranks_done());
  if (idle <= Duration(0)) return;
  const HangSettings settings = HangSettingsOf(job.spec().hang());
  const bool steps = job.progress.reports_steps();
  // Before the first steps and after the last one, less is known about what is usual.
  const bool unusual = IsAtEnd(job) || job.group.a_rank_has_ended() || !job.hang.has_learned();
  Duration limit = steps ? job.hang.Patience(LimitsOf(job), false) : settings.idle;
  if (unusual) limit = std::max(limit, settings.idle);
  const Duration without_step = context_.now - job.hang.last_progress();
  if (idle < limit || (steps && without_step < limit)) return;
  std::string what = "no activity of any worker for " + ToString(idle);
  if (steps) what += " and no step for " + ToString(without_step);
  what += " (" + job.idle.Evidence() + ")";
  NoteHang(job, {proto::FaultClass::kHang, std::move(what), "", -1, context_.now - idle, true});
}

void HangHandler::NoteHang(JobRecord& job, Evidence evidence) {
  std::set<std::string> nodes;
  for (const Member& member : job.group.members()) {
    nodes.insert(member.node.value());
    Probe(job, member.node, false, true);
  }
  job.stacks.Begin(std::move(evidence), std::move(nodes));
  context_.deadlines.Set(DeadlineKind::kStacks, job.id(), context_.now + kStacksLimit);
}

void HangHandler::OnStacksOverdue(JobRecord& job) {
  context_.deadlines.Clear(DeadlineKind::kStacks, job.id());
  if (!job.stacks.pending()) return;
  const Evidence evidence = job.stacks.Conclude();
  if (job.faults.undecided() || job.life.state() != proto::RUNNING) return;
  faults_.NoteFault(job, evidence);
  faults_.TryDecide(job);
}

}  // namespace longhaul::runtime::controller
