#include "runtime/snapshot_interval.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <vector>

namespace longhaul::runtime {
namespace {

// The weight of a new observation: the mean follows a change within some ten of them.
constexpr double kNewest = 0.2;
constexpr size_t kRemembered = 5;
constexpr uint64_t kEnough = 3;  // snapshots measured before anything is concluded
// An interval r times the best one wastes (r + 1/r) / 2 as much: 8 % more for 1.5, which is less
// than the noise of what is measured would cost in changes back and forth.
constexpr double kMoved = 1.5;

Seconds Follow(Seconds mean, Seconds observed) {
  if (!(observed > Seconds(0))) return mean;
  return mean > Seconds(0) ? mean * (1 - kNewest) + observed * kNewest : observed;
}

}  // namespace

SnapshotInterval::SnapshotInterval(uint64_t fixed_steps, Seconds expected_time_between_failures)
    : fixed_steps_(fixed_steps),
      expected_time_between_failures_(expected_time_between_failures),
      steps_(fixed_steps > 0 ? fixed_steps : kFirstSteps) {}

void SnapshotInterval::ObserveSnapshot(Seconds blocked) {
  if (!(blocked > Seconds(0))) return;
  recent_blocked_.push_back(blocked);
  if (recent_blocked_.size() > kRemembered) recent_blocked_.pop_front();
  blocked_sum_ += blocked;
  ++snapshots_;
}

Seconds SnapshotInterval::TypicalBlocked() const {
  if (recent_blocked_.empty()) return Seconds(0);
  std::vector<Seconds> sorted(recent_blocked_.begin(), recent_blocked_.end());
  std::sort(sorted.begin(), sorted.end());
  return sorted[(sorted.size() - 1) / 2];
}

Seconds SnapshotInterval::mean_blocked() const {
  return snapshots_ == 0 ? Seconds(0) : blocked_sum_ / static_cast<double>(snapshots_);
}

void SnapshotInterval::ObserveStep(Seconds step) { step_ = Follow(step_, step); }
void SnapshotInterval::ObserveRunning(Seconds time) { running_ += time; }
void SnapshotInterval::ObserveFailure() { ++failures_; }

Seconds SnapshotInterval::TimeBetweenFailures() const {
  return (expected_time_between_failures_ + running_) / (1.0 + static_cast<double>(failures_));
}

bool SnapshotInterval::Update() {
  if (fixed_steps_ > 0 || snapshots_ < kEnough || !(step_ > Seconds(0))) return false;
  const double best_s = std::sqrt(2 * TypicalBlocked().count() * TimeBetweenFailures().count());
  const double best_steps = std::clamp(best_s / step_.count(), 1.0, 1e9);
  const auto now = static_cast<double>(steps_);
  if (best_steps <= kMoved * now && best_steps >= now / kMoved) return false;
  const auto chosen = static_cast<uint64_t>(std::llround(best_steps));
  if (chosen == steps_) return false;
  steps_ = chosen;
  return true;
}

std::string SnapshotInterval::reason() const {
  if (fixed_steps_ > 0) return "fixed by the job";
  if (snapshots_ < kEnough || !(step_ > Seconds(0))) return "until three snapshots are measured";
  char text[256];
  std::snprintf(text, sizeof(text),
                "sqrt(2 x %.3g ms a snapshot x %.3g s between failures) = %.3g s of %.3g s steps",
                TypicalBlocked().count() * 1e3, TimeBetweenFailures().count(),
                std::sqrt(2 * TypicalBlocked().count() * TimeBetweenFailures().count()),
                step_.count());
  return text;
}

}  // namespace longhaul::runtime
