#include "frontend/explain/run_status.h"

#include <algorithm>

#include "story/ledger_rows.h"

namespace longhaul::frontend {

void RunStatus::Take(const proto::Notification& notification) {
  switch (notification.kind_case()) {
    case proto::Notification::kState:
      return TakeState(notification);
    case proto::Notification::kAttempt:
      return TakeAttempt(notification.attempt());
    case proto::Notification::kStep:
      return TakeStep(notification.step());
    case proto::Notification::kSnapshot:
      return TakeSnapshot(notification.snapshot());
    default:
      return;
  }
}

void RunStatus::TakeState(const proto::Notification& notification) {
  if (status_.submitted_at_ns() == 0) status_.set_submitted_at_ns(notification.at_ns());
  const proto::JobState state = notification.state().state();
  const bool ended = state == proto::SUCCEEDED || state == proto::FAILED || state == proto::STOPPED;
  status_.set_state(state);
  status_.set_reason(notification.state().reason());
  status_.set_ended_at_ns(ended ? notification.at_ns() : 0);
  if (ended) status_.clear_gang();
}

void RunStatus::TakeAttempt(const proto::AttemptNotification& attempt) {
  if (status_.attempt() > 0) status_.set_restarts(status_.restarts() + 1);
  status_.set_attempt(attempt.attempt());
  *status_.mutable_gang() = attempt.gang();
  const int nodes = std::max(1, attempt.gang_size());
  status_.mutable_job()->set_nodes(static_cast<uint32_t>(nodes));
  status_.mutable_job()->set_processes_per_node(attempt.world() / static_cast<uint32_t>(nodes));
}

void RunStatus::TakeStep(const proto::StepNotification& step) {
  status_.set_step(step.step());
  status_.set_highest_step(std::max(status_.highest_step(), step.step()));
  status_.set_loss(step.loss());
  if (step.has_validation_loss()) status_.set_validation_loss(step.validation_loss());
  status_.set_tokens_per_second(step.tokens_per_second());
  status_.set_seconds_per_step(step.step_seconds());
  status_.set_eta_seconds(step.eta_seconds());
  status_.mutable_ledger()->set_goodput(step.goodput());
}

void RunStatus::TakeSnapshot(const proto::SnapshotNotification& snapshot) {
  if (snapshot.tier() == "memory") status_.set_memory_step(snapshot.step());
  if (snapshot.tier() == "disk") status_.set_committed_step(snapshot.step());
}

proto::JobStatus RunStatus::Of(const story::RunRecord& record) const {
  proto::JobStatus status = status_;
  status.mutable_job()->set_id(record.job_id);
  status.mutable_job()->set_name(record.job_id.substr(0, record.job_id.rfind('-')));
  status.mutable_job()->set_run_directory(record.run_directory);
  // A record has each fault as often as it was reported, the newest report last.
  for (const proto::Notification& each : record.notifications) {
    if (!each.has_fault()) continue;
    const auto known = std::find_if(
        status.mutable_faults()->begin(), status.mutable_faults()->end(),
        [&](const proto::Fault& fault) { return fault.number() == each.fault().number(); });
    (known == status.mutable_faults()->end() ? *status.add_faults() : *known) = each.fault();
  }
  if (!record.totals.has_value()) return status;
  const double ranks = std::max(1.0, record.totals->ranks);
  proto::Ledger& ledger = *status.mutable_ledger();
  ledger.set_goodput(record.totals->goodput);
  for (int value = proto::Category_MIN; value <= proto::Category_MAX; ++value) {
    const auto category = static_cast<proto::Category>(value);
    for (const story::CategorySeconds& each : record.totals->categories) {
      if (value == 0 || each.category != story::NameOfCategory(category)) continue;
      proto::CategoryTime& time = *ledger.add_categories();
      time.set_category(category);
      time.set_rank_seconds(each.seconds * ranks);
      ledger.set_rank_seconds(ledger.rank_seconds() + time.rank_seconds());
      ledger.set_wall_seconds(ledger.wall_seconds() + each.seconds);
    }
  }
  return status;
}

}  // namespace longhaul::frontend
