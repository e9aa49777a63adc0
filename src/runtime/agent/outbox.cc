#include "runtime/agent/outbox.h"

#include <algorithm>
#include <utility>

#include "base/check.h"

namespace longhaul::runtime {
namespace {

// Reports that may be dropped when the controller has been away for very long: what they say is
// repeated by later, newer ones.
bool IsProgress(const proto::Event& event) {
  return event.has_step_reported() || event.has_phase_entered() || event.has_snapshot_sealed() ||
         event.has_copy_received() || event.has_workers_probed() || event.has_workers_sampled() ||
         event.has_worker_waits();
}

// A report with a validation loss stays separate: the loss belongs to its last step, and a merged
// report would move it to a later one.
bool Continues(const proto::StepReported& earlier, const proto::StepReported& later) {
  return earlier.job_id() == later.job_id() && earlier.attempt() == later.attempt() &&
         earlier.last_step() + 1 == later.first_step() && !earlier.has_validation_loss();
}

// Times, tokens and FLOPs are sums over the steps, so the merged report is what one report of all
// steps would have been. Loss and gradient norm are those of the newest step that has them.
void MergeInto(proto::StepReported& earlier, const proto::StepReported& later) {
  proto::StepReported merged = later;
  merged.set_first_step(earlier.first_step());
  const proto::StepTimes& before = earlier.times();
  proto::StepTimes& times = *merged.mutable_times();
  times.set_data_ns(times.data_ns() + before.data_ns());
  times.set_snapshot_ns(times.snapshot_ns() + before.snapshot_ns());
  times.set_evaluation_ns(times.evaluation_ns() + before.evaluation_ns());
  times.set_communication_ns(times.communication_ns() + before.communication_ns());
  merged.set_tokens(later.tokens() + earlier.tokens());
  merged.set_flops(later.flops() + earlier.flops());
  if (!later.has_loss() && earlier.has_loss()) {
    merged.set_has_loss(true);
    merged.set_loss(earlier.loss());
    merged.set_gradient_norm(earlier.gradient_norm());
  }
  earlier = std::move(merged);
}

}  // namespace

void Outbox::Add(proto::Event event) {
  if (event.has_step_reported() && MergeStep(event)) return;
  // No later report repeats a worker's result, but a worker may send any number of them.
  const size_t limit = event.has_worker_result() ? 2 * kOutboxLimit : kOutboxLimit;
  if (events_.size() >= limit && (IsProgress(event) || event.has_worker_result())) return;
  event.set_sequence(++last_sequence_);
  events_.push_back(std::move(event));
}

// An event that was ever sent is not changed: the controller may have taken it under its sequence
// number, and would drop the changed one as a repetition.
bool Outbox::MergeStep(const proto::Event& event) {
  if (events_.size() < merge_from_) return false;
  // Normally only into the last event, so that the order of things stays; past the limit into the
  // last report of steps, wherever it is, so that no step is missing.
  const bool full = events_.size() >= kOutboxLimit;
  for (auto kept = events_.rbegin(); kept != events_.rend(); ++kept) {
    if (kept->sequence() <= ever_sent_) return false;
    if (kept->has_step_reported() && Continues(kept->step_reported(), event.step_reported())) {
      MergeInto(*kept->mutable_step_reported(), event.step_reported());
      kept->set_at_ns(event.at_ns());
      return true;
    }
    if (!full) return false;
  }
  return false;
}

// Events stay until they are acknowledged; `sent_` is how many of them this connection has.
std::vector<proto::Event> Outbox::TakeUnsent() {
  std::vector<proto::Event> unsent(events_.begin() + static_cast<std::ptrdiff_t>(sent_),
                                   events_.end());
  sent_ = events_.size();
  if (!events_.empty()) ever_sent_ = std::max(ever_sent_, events_.back().sequence());
  return unsent;
}

void Outbox::Acknowledge(uint64_t sequence) {
  while (!events_.empty() && events_.front().sequence() <= sequence) {
    events_.pop_front();
    if (sent_ > 0) --sent_;
  }
}

Status Outbox::CheckInvariants() const {
  if (sent_ > events_.size()) return InternalError("outbox: more sent than kept");
  // Numbers have no gaps: the controller takes each higher number as new, so a gap would hide a
  // lost event.
  uint64_t expected = last_sequence_ - events_.size();
  for (const proto::Event& event : events_) {
    if (event.sequence() != ++expected) {
      return InternalError("outbox: sequence " + std::to_string(event.sequence()) + " where " +
                           std::to_string(expected) + " belongs");
    }
  }
  return Status();
}

}  // namespace longhaul::runtime
