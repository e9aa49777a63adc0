#include "runtime/controller/handlers/step_reports.h"

#include <algorithm>
#include <string>
#include <utility>

#include "runtime/controller/handlers/fault_handler.h"
#include "runtime/controller/handlers/hang_handler.h"
#include "runtime/controller/handlers/hang_suspicions.h"
#include "runtime/controller/handlers/numeric_faults.h"
#include "runtime/controller/handlers/slow_worker_reports.h"
#include "runtime/controller/placement.h"

namespace longhaul::runtime::controller {

namespace {

// As in the grammar of --inject (spec/job/fault_plan.h), where agents count from 1.
std::string DescribePlanned(const proto::PlannedFault& fault) {
  const std::string at = " at step " + std::to_string(fault.step());
  switch (fault.kind()) {
    case proto::PlannedFault::KILL_WORKER:
      return "kill worker " + std::to_string(fault.target()) + at;
    case proto::PlannedFault::KILL_AGENT:
      return "kill agent " + std::to_string(fault.target() + 1) + at;
    case proto::PlannedFault::KILL_NODE:
      return "kill node " + std::to_string(fault.target() + 1) + at;
    case proto::PlannedFault::STOP_WORKER:
      return "stop worker " + std::to_string(fault.target()) + " for " +
             ToString(Duration(fault.duration_ns())) + at;
    default:
      return "a fault" + at;
  }
}

}  // namespace

void StepReports::OnStepReported(const proto::Event& event) {
  const auto& report = event.step_reported();
  size_t place = 0;
  JobRecord* job = context_.CurrentJob(event, report.job_id(), report.attempt(), &place);
  if (job == nullptr) return;
  if (job->faults.undecided()) return TakeLate(*job, report, place);
  const uint64_t next = job->group.member(place).reported_step + 1;
  const Instant at = InstantFromNanoseconds(event.at_ns());
  uint64_t first = report.first_step();
  if (job->reads_output() && report.whole_job()) {
    if (!job->progress.reports_steps()) return TakeFirstOutput(*job, report, at);
    // Several nodes may print the same steps, each with a beginning of its own.
    first = next;
  }
  // Steps come one after another, each once, and not beyond the lease.
  const uint64_t last = report.last_step();
  // A gap would leave steps without time in the ledger, and a repeated step would be counted twice.
  if (first != next || last < first || last >= job->group.lease().end_step()) return;
  Duration stall{};
  if (report.whole_job()) {
    job->group.ReportAll(last);
    stall = job->ledger.BookStepsForAll(first, last, report.times(), at);
  } else {
    job->group.Report(place, last);
    stall = job->ledger.BookSteps(place, first, last, report.times(), at);
    job->rank_work.Take(place, report);
  }
  if (place == 0 || report.whole_job()) {  // the node of rank 0 reports for the job
    ReportStall(*job, last, stall, at);
    TakeProgress(*job, report, at);
  }
  numbers_.TakeReport(*job, report, first, place, at);
}

// A step that was done before the fault, and whose report comes after it. The next attempt may
// begin with its state, and then nobody computes its loss again. Its time is booked with the
// fault's.
void StepReports::TakeLate(JobRecord& job, const proto::StepReported& report, size_t place) {
  numbers_.TakeLate(job, report, place);
  const bool is_new = report.first_step() > job.group.member(place).reported_step &&
                      report.last_step() >= report.first_step() &&
                      report.last_step() < job.group.lease().end_step();
  if (place != 0 || !is_new || job.reads_output()) return;
  job.progress.TakeLosses(report);
  AddStepNotification(job, report);
}

// The first line of an attempt's output that shows a step. A script restores its own checkpoint, so
// this line is all that is known of where it continued from: the steps above it are lost, and the
// time until it was the start of the workers.
void StepReports::TakeFirstOutput(JobRecord& job, const proto::StepReported& report, Instant at) {
  const uint64_t step = report.last_step();
  if (step >= job.group.lease().end_step()) return;
  job.group.ReportAll(step);
  job.hang.CountFromAtLeast(at);
  if (job.restores_by_itself()) job.ledger.Rollback(step);
  job.ledger.BeginSteps(at);
  if (job.restores_by_itself() && job.faults.has_unresolved()) {
    job.faults.NoteFirstOutput(step, job.progress.TakeStepBefore());
    context_.AddFaultNotification(job, job.faults.newest());
  }
  TakeProgress(job, report, at);
}

// A short stall is only booked; of many in a row one is reported.
void StepReports::ReportStall(JobRecord& job, uint64_t step, Duration stall, Instant at) {
  if (!job.progress.ShouldReportStall(stall, at)) return;
  context_.AddMessage(job.id(), proto::MessageNotification::WARNING,
                      "step " + std::to_string(step) + " came " + ToString(stall) +
                          " later than usual (a step takes " + ToString(job.ledger.typical_step()) +
                          "): that time is booked as a stall");
}

void StepReports::TakeProgress(JobRecord& job, const proto::StepReported& report, Instant at) {
  const Duration took = job.hang.TakeReport(at);
  const JobProgress::Taken taken = job.progress.TakeSteps(report, took, at);
  // The time before the first report includes the restart, so it says nothing about a step. But
  // this report proves that the restore is over: memory that was kept for it can be released.
  if (taken.first_of_attempt) {
    placement_.FreeLeft(job);
  } else {
    const auto count = static_cast<double>(report.last_step() - report.first_step() + 1);
    // An evaluation takes place at a few steps only, so its time is left out of the mean time of a
    // step.
    const double steady = ToSeconds(took) - ToSeconds(Duration(report.times().evaluation_ns()));
    job.interval.ObserveStep(Seconds(std::max(steady, 0.0) / count));
    job.interval.ObserveRunning(Seconds(ToSeconds(took)));
    slow_workers_.TakeSteps(job, took, report.last_step() - report.first_step() + 1);
  }
  if (taken.new_step) job.faults.NoteNewStep();
  job.faults.Stamp(RestartStage::kFirstStep, at);
  job.starts.NoteFirstStep(context_.now);
  faults_.ResolveFaults(job, at);
  job.progress.TakeLosses(report);
  AddStepNotification(job, report);
  context_.deadlines.Clear(DeadlineKind::kStart, job.id());
  hangs_.WatchProgress(job);
  suspicions_.Watch(job);
  InjectDueFaults(job);
}

void StepReports::AddStepNotification(JobRecord& job, const proto::StepReported& report) {
  proto::Notification& added = context_.AddNotification(job.id());
  if (job.ledger_notes.IsDue(job.ledger.start(), context_.now)) {
    context_.AddLedger(job, added);
    if (job.rank_work.has_news()) *added.mutable_rank_work() = job.rank_work.TakeEntry();
  }
  auto* notification = added.mutable_step();
  notification->set_step(report.last_step());
  notification->set_attempt(job.life.attempt());
  notification->set_has_loss(report.has_loss());
  notification->set_loss(report.loss());
  notification->set_has_validation_loss(report.has_validation_loss());
  notification->set_validation_loss(report.validation_loss());
  notification->set_gradient_norm(report.gradient_norm());
  notification->set_tokens_per_second(job.progress.tokens_per_second());
  notification->set_step_seconds(job.progress.step_seconds());
  notification->set_flops_per_second(job.progress.flops_per_second());
  notification->set_total_steps(job.total_steps());
  notification->set_goodput(job.ledger.Goodput());
  notification->set_stall(job.ledger.ShareOf(proto::STALL));
  notification->set_eta_seconds(job.progress.EtaSeconds(job.total_steps()));
}

void StepReports::OnWorkerResult(const proto::WorkerResult& result) {
  JobRecord* job = context_.jobs.Find(result.job_id());
  if (job == nullptr || !job->live() || job->life.attempt() != result.attempt()) return;
  job->life.AddResult(result.json());
}

void StepReports::InjectDueFaults(JobRecord& job) {
  // A fault is injected at the first report at or after its step, since reports may cover several
  // steps. Each one is marked before it is sent: after a restart that repeats the step it must not
  // be injected again.
  for (int i = 0; i < job.spec().faults_size(); ++i) {
    const proto::PlannedFault& fault = job.spec().faults(i);
    if (job.faults.injected(i) || fault.step() > job.progress.step()) continue;
    if (fault.kind() == proto::PlannedFault::KILL_CONTROLLER) {
      job.faults.MarkInjected(i);
      context_.AddMessage(job.id(), proto::MessageNotification::WARNING,
                          "injected: the controller kills itself");
      context_.out.kill_controller = true;
      continue;
    }
    const bool of_worker = fault.kind() == proto::PlannedFault::KILL_WORKER ||
                           fault.kind() == proto::PlannedFault::STOP_WORKER;
    const size_t place = of_worker ? fault.target() / job.local() : fault.target();
    if (place >= job.group.size()) continue;  // an elastic job may grow back to it
    job.faults.MarkInjected(i);
    Inject(job, fault, place);
  }
}

void StepReports::Inject(JobRecord& job, const proto::PlannedFault& fault, size_t place) {
  context_.AddMessage(job.id(), proto::MessageNotification::WARNING,
                      "injected: " + DescribePlanned(fault));
  proto::Command command;
  auto* inject = command.mutable_inject_fault();
  inject->set_job_id(job.id());
  inject->set_attempt(job.life.attempt());
  *inject->mutable_fault() = fault;
  context_.Send(job.group.member(place).node, std::move(command));
}

}  // namespace longhaul::runtime::controller
