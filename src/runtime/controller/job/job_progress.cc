#include "runtime/controller/job/job_progress.h"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <utility>

namespace longhaul::runtime::controller {

void JobProgress::BeginAttempt(uint64_t step) {
  if (std::exchange(reports_steps_, false)) step_before_ = step_;
  validation_losses_.erase(validation_losses_.upper_bound(step), validation_losses_.end());
  not_finite_.clear();
  step_ = step;
  // A snapshot is sealed before its step is reported, so a restored step was done all the same.
  highest_step_ = std::max(highest_step_, step);
}

JobProgress::Taken JobProgress::TakeSteps(const proto::StepReported& report, Duration took,
                                          Instant at) {
  last_step_at_ = at;
  const auto count = static_cast<double>(report.last_step() - report.first_step() + 1);
  // The time before the first report of an attempt includes the restart, so it is no step time.
  if (reports_steps_) {
    const double each = ToSeconds(took) / count;
    step_seconds_ = step_seconds_ > 0 ? 0.8 * step_seconds_ + 0.2 * each : each;
    tokens_per_second_ =
        step_seconds_ > 0 ? static_cast<double>(report.tokens()) / count / step_seconds_ : 0;
    flops_per_second_ = step_seconds_ > 0 ? report.flops() / count / step_seconds_ : 0;
  }
  Taken taken;
  taken.first_of_attempt = !std::exchange(reports_steps_, true);
  step_ = report.last_step();
  if (step_ > highest_step_) {
    // Steps that are done again after a restart have been counted before.
    const double fresh = std::min(count, static_cast<double>(step_ - highest_step_)) / count;
    tokens_ += static_cast<double>(report.tokens()) * fresh;
    flops_ += report.flops() * fresh;
    highest_step_ = step_;
    taken.new_step = true;
  }
  if (report.total_steps() > 0) output_total_ = report.total_steps();
  return taken;
}

bool JobProgress::TakeNotFinite(uint32_t first, uint32_t count, const std::set<uint32_t>& ranks) {
  const bool newly = not_finite_.empty() && !ranks.empty();
  not_finite_.erase(not_finite_.lower_bound(first), not_finite_.lower_bound(first + count));
  not_finite_.insert(ranks.begin(), ranks.end());
  return newly;
}

void JobProgress::TakeLosses(const proto::StepReported& report) {
  if (report.has_loss()) {
    if (!losses_.has_first) losses_.first = report.loss();
    losses_.has_first = true;
    losses_.newest = report.loss();
  }
  if (!report.has_validation_loss()) return;
  if (!losses_.has_first_validation) losses_.first_validation = report.validation_loss();
  losses_.has_first_validation = true;
  losses_.newest_validation = report.validation_loss();
  constexpr size_t kRememberedLosses = 32;
  validation_losses_[report.last_step()] = report.validation_loss();
  if (validation_losses_.size() > kRememberedLosses) {
    validation_losses_.erase(validation_losses_.begin());
  }
}

// One message a minute at most: a slow network makes almost each step stall.
bool JobProgress::ShouldReportStall(Duration stall, Instant at) {
  constexpr Duration kReported = std::chrono::seconds(1);
  constexpr Duration kPause = std::chrono::minutes(1);
  if (stall < kReported) return false;
  if (stall_reported_.has_value() && at < *stall_reported_ + kPause) return false;
  stall_reported_ = at;
  return true;
}

uint64_t JobProgress::TakeStepBefore() { return std::exchange(step_before_, 0); }

double JobProgress::EtaSeconds(uint64_t total) const {
  const bool known = total > 0 && total >= step_ && step_seconds_ > 0;
  return known ? step_seconds_ * static_cast<double>(total - step_) : -1;
}

// The loss of the newest evaluation at or before the step: a checkpoint rarely falls on a step with
// an evaluation.
std::optional<double> JobProgress::ValidationLossAt(uint64_t step) const {
  const auto later = validation_losses_.upper_bound(step);
  if (later == validation_losses_.begin()) return std::nullopt;
  const double loss = std::prev(later)->second;
  return std::isfinite(loss) ? std::optional(loss) : std::nullopt;
}

}  // namespace longhaul::runtime::controller
