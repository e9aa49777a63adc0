#include "runtime/controller/handlers/hang_handler.h"

#include <string>
#include <utility>

#include "runtime/controller/handlers/attempt_starter.h"
#include "runtime/controller/handlers/fault_handler.h"

namespace longhaul::runtime::controller {

HangLimits HangHandler::LimitsOf(const JobRecord& job) const {
  const ControllerOptions& options = context_.options;
  // A script that prints its steps prints nothing during evaluations and checkpoints, so silence
  // proves less there.
  const bool output = job.reads_output();
  return {output ? options.output_hang_floor : options.hang_floor, options.hang_factor,
          output ? options.output_hang_limit : Duration(0)};
}

void HangHandler::WatchProgress(JobRecord& job) {
  if (!job.progress.reports_steps() || job.faults.undecided()) return;
  if (job.life.state() != proto::RUNNING) return;
  const bool done = job.total_steps() > 0 && job.progress.step() >= job.total_steps();
  if (done) return context_.deadlines.Clear(DeadlineKind::kProgress, job.id());
  const Duration patience = job.hang.Patience(LimitsOf(job), job.group.a_rank_has_ended());
  context_.deadlines.Set(DeadlineKind::kProgress, job.id(), context_.now + patience);
}

void HangHandler::OnStartOverdue(JobRecord& job) {
  std::string late;
  for (const Member& member : job.group.members()) {
    if (member.phase < proto::PhaseEntered::STEPPING) late += " " + member.node.value();
  }
  faults_.NoteFault(job, {proto::FaultClass::kHang,
                          "no first step within " + ToString(StartLimitOf(job, context_.options)) +
                              " of the start; late:" + (late.empty() ? " unknown" : late),
                          "", -1, context_.now, true});
  faults_.TryDecide(job);
}

// First the workers are probed, which continues stopped ones. If that does not help, the attempt is
// restarted.
void HangHandler::OnProgressOverdue(JobRecord& job) {
  const HangDetector::Overdue overdue = job.hang.TakeOverdue(LimitsOf(job), context_.now);
  if (overdue.action == HangDetector::Overdue::Action::kRestart) {
    faults_.NoteFault(
        job, {proto::FaultClass::kHang, overdue.silence + "; all workers are restarted", "", -1,
              job.hang.last_progress(), true});
    return faults_.TryDecide(job);
  }
  if (overdue.first) {
    context_.AddMessage(job.id(), proto::MessageNotification::WARNING,
                        overdue.silence + ": the state of the workers' processes is read");
  }
  for (const Member& member : job.group.members()) {
    proto::Command command;
    auto* probe = command.mutable_probe_workers();
    probe->set_job_id(job.id());
    probe->set_attempt(job.life.attempt());
    probe->set_resume_stopped(true);
    context_.Send(member.node, std::move(command));
  }
  WatchProgress(job);
}

void HangHandler::OnWorkersProbed(const proto::Event& event) {
  const auto& probed = event.workers_probed();
  size_t place = 0;
  JobRecord* job = context_.CurrentJob(event, probed.job_id(), probed.attempt(), &place);
  if (job == nullptr || job->faults.undecided() || job->life.state() != proto::RUNNING) return;
  const Instant since = job->hang.last_progress();
  for (const auto& worker : probed.workers()) {
    // Only a worker that the probe found stopped and continued is a fault. The others show that the
    // state of the processes is normal, and the next deadline decides.
    if (!worker.resumed()) continue;
    const proto::Fault& fault = job->faults.AddContinued(
        {proto::FaultClass::kHang,
         "worker " + std::to_string(worker.rank()) + " was stopped (state T)", event.node(),
         static_cast<int32_t>(worker.rank()), since, true},
        job->spec(), job->group, job->progress.step(), job->progress.highest_step(),
        BadTimeOf(job->ledger.Summary(since)), context_.now);
    // The time in which it was stopped belongs to no step.
    job->ledger.EnterAll(proto::DETECT, since);
    job->ledger.EnterAll(proto::LOST_WORK, context_.now);
    context_.AddFaultNotification(*job, fault);
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

// A command that reports no steps may be idle as intended, so its silence is reported in a message
// and nothing is restarted.
void HangHandler::OnWorkerSilent(const proto::Event& event) {
  constexpr size_t kMostReported = 4;  // where one rank waits, all the others soon do
  const auto& silent = event.worker_silent();
  size_t place = 0;
  JobRecord* job = context_.CurrentJob(event, silent.job_id(), silent.attempt(), &place);
  if (job == nullptr || job->faults.undecided() || job->progress.reports_steps()) return;
  if (silent.rank() / job->local() != place) return;
  if (silent.silent_ns() <= 0) return job->group.ForgetSilence(silent.rank());
  if (!job->group.NoteSilence(silent.rank()) || job->group.silent_ranks() > kMostReported) return;
  context_.AddMessage(silent.job_id(), proto::MessageNotification::WARNING,
                      "worker " + std::to_string(silent.rank()) + " on " + event.node() +
                          " has written nothing and used no processor time for " +
                          ToString(Duration(silent.silent_ns())) +
                          "; it reports no steps, so it is not restarted");
}

}  // namespace longhaul::runtime::controller
