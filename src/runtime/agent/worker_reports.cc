#include "runtime/agent/worker_reports.h"

#include <utility>

#include "base/utf8.h"
#include "runtime/agent/node_snapshots.h"

namespace longhaul::runtime::agent {

void WorkerReports::Take(const WorkerPhase& fact) {
  Attempt* attempt = context_.FindSpeaking(fact.worker);
  if (attempt == nullptr) return;
  if (std::optional<proto::Event> event = attempt->reports.Phase(fact))
    context_.Report(*std::move(event));
}

void WorkerReports::Take(const WorkerStep& fact) {
  Attempt* attempt = context_.FindSpeaking(fact.worker);
  if (attempt == nullptr) return;
  if (std::optional<proto::Event> event = attempt->reports.Step(fact))
    context_.Report(*std::move(event));
}

void WorkerReports::Take(const WorkerSealed& fact) {
  Attempt* attempt = context_.FindSpeaking(fact.worker);
  if (attempt == nullptr) return;
  std::optional<proto::Event> event = attempt->reports.Sealed(fact);
  if (!event.has_value()) return;
  // The controller receives the report in any case, so that it can warn the user.
  const bool non_finite = event->snapshot_sealed().non_finite();
  context_.Report(*std::move(event));
  if (non_finite) return;  // nobody shall have it
  AgentJob& job = context_.jobs.at(fact.worker.job);
  snapshots_.NoteSealed(job, SnapshotId{fact.worker.attempt, fact.step}, attempt->start);
  snapshots_.MaybeCopy(fact.worker.job, job);
  snapshots_.MaybePersist(fact.worker.job, job);
}

void WorkerReports::Take(const WorkerWaitsForSlot& fact) {
  if (context_.FindSpeaking(fact.worker) == nullptr) return;
  proto::Event event;
  proto::WorkerWaits& waits = *event.mutable_worker_waits();
  waits.set_job_id(fact.worker.job.value());
  waits.set_attempt(fact.worker.attempt);
  waits.set_rank(fact.worker.rank);
  waits.set_step(fact.step);
  waits.set_waited_ns(fact.waited.count());
  waits.set_holders(ToValidUtf8(fact.holders));
  context_.Report(std::move(event));
}

void WorkerReports::Take(const WorkerRestored& fact) {
  Attempt* attempt = context_.FindSpeaking(fact.worker);
  if (attempt != nullptr) attempt->reports.Restored(fact);
}

// `served` means that the rank restored the step from another source. Then the report only marks
// the bad copies.
void WorkerReports::Take(const WorkerRestoreFailed& fact) {
  if (context_.FindSpeaking(fact.worker) == nullptr) return;
  if (fact.tier == proto::Restore::TIER_MEMORY) {
    std::erase_if(context_.jobs.at(fact.worker.job).sealed,
                  [&fact](const auto& entry) { return entry.first.step == fact.step; });
  }
  proto::Event event;
  proto::SnapshotFailed& failed = *event.mutable_snapshot_failed();
  failed.set_job_id(fact.worker.job.value());
  failed.set_attempt(fact.worker.attempt);
  failed.set_step(fact.step);
  failed.set_reason(ToValidUtf8(fact.reason));
  failed.set_while_restoring(!fact.served);
  failed.set_tier(fact.tier);
  for (const proto::Restore::Piece& piece : fact.bad) *failed.add_bad() = piece;
  failed.set_rank(fact.worker.rank);
  context_.Report(std::move(event));
}

void WorkerReports::Take(const WorkerResultText& fact) {
  if (context_.FindSpeaking(fact.worker) == nullptr) return;
  proto::Event event;
  proto::WorkerResult& result = *event.mutable_worker_result();
  result.set_job_id(fact.worker.job.value());
  result.set_attempt(fact.worker.attempt);
  result.set_rank(fact.worker.rank);
  result.set_json(ToValidUtf8(fact.json));
  context_.Report(std::move(event));
}

// A step is taken to be done by all ranks when one of them prints it. Where a rank reports steps at
// the worker API, these count alone.
void WorkerReports::Take(const WorkerOutputStep& fact) {
  Attempt* attempt = context_.FindSpeaking(fact.worker);
  // Several ranks print the same steps. Only a higher step than any before is news.
  if (attempt == nullptr || attempt->reports.has_steps()) return;
  const bool begins = !attempt->output_step.has_value();
  if (!begins && fact.step <= *attempt->output_step) return;
  proto::Event event;
  event.set_at_ns(ToNanoseconds(fact.at));
  proto::StepReported& report = *event.mutable_step_reported();
  report.set_job_id(fact.worker.job.value());
  report.set_attempt(fact.worker.attempt);
  report.set_first_step(begins ? fact.step : *attempt->output_step + 1);
  report.set_last_step(fact.step);
  report.set_whole_job(true);
  report.set_begins(begins);
  report.set_total_steps(fact.total);
  report.set_has_loss(fact.loss.has_value());
  report.set_loss(fact.loss.value_or(0));
  attempt->output_step = fact.step;
  context_.Report(std::move(event));
}

void WorkerReports::Take(const WorkerQuiet& fact) {
  if (context_.FindSpeaking(fact.worker) == nullptr) return;
  proto::Event event;
  proto::WorkerSilent& silent = *event.mutable_worker_silent();
  silent.set_job_id(fact.worker.job.value());
  silent.set_attempt(fact.worker.attempt);
  silent.set_rank(fact.worker.rank);
  silent.set_silent_ns(fact.silent.count());
  silent.set_stopped_ns(fact.stopped.count());
  silent.set_evidence(fact.evidence);
  context_.Report(std::move(event));
}

void WorkerReports::Take(const ReadyReport& fact) { context_.Report(fact.event); }

}  // namespace longhaul::runtime::agent
