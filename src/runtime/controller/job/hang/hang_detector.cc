#include "runtime/controller/job/hang/hang_detector.h"

#include <algorithm>
#include <utility>

namespace longhaul::runtime::controller {

namespace {

// Once a worker has ended well, the others have this long for their work without steps.
constexpr Duration kEndLimit = std::chrono::minutes(10);

}  // namespace

void HangDetector::BeginAttempt() {
  slowest_report_ = {};
  reports_ = 0;
  probes_ = 0;
  wait_.clear();
}

Duration HangDetector::TakeReport(Instant at) {
  const Duration took = std::max(at - last_progress_, Duration(0));
  // One slow report must not hide hangs for the rest of the run: it loses weight slowly.
  slowest_report_ = std::max(took, slowest_report_ * 99 / 100);
  probes_ = 0;
  ++reports_;
  wait_.clear();
  last_progress_ = std::max(at, last_progress_);
  return took;
}

void HangDetector::CountFromAtLeast(Instant at) { last_progress_ = std::max(at, last_progress_); }

bool HangDetector::NoteWait(std::string wait) {
  const bool first = wait_.empty();
  wait_ = std::move(wait);
  return first;
}

Duration HangDetector::Patience(const HangLimits& limits, bool workers_end) const {
  const Duration patience =
      std::max(limits.floor, DurationFromSeconds(ToSeconds(slowest_report_) * limits.factor));
  return workers_end ? std::max(patience, kEndLimit) : patience;
}

// The caller sets the next deadline one patience later, so a restart comes after twice the patience
// at the earliest.
HangDetector::Overdue HangDetector::TakeOverdue(const HangLimits& limits, Instant now) {
  Overdue overdue;
  overdue.silence =
      "no step for " + ToString(now - last_progress_) + (wait_.empty() ? "" : ": " + wait_);
  ++probes_;
  overdue.first = probes_ == 1;
  // A second probe that finds no worker to continue is enough, unless silence says little.
  if (probes_ >= 2 && now - last_progress_ >= limits.restart_after) {
    overdue.action = Overdue::Action::kRestart;
  }
  return overdue;
}

}  // namespace longhaul::runtime::controller
