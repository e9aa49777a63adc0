#include "runtime/controller/job/snapshot_interval.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "base/time.h"

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

void Remember(std::deque<Seconds>& recent, Seconds observed) {
  recent.push_back(observed);
  if (recent.size() > kRemembered) recent.pop_front();
}

// The lower median: one slow snapshot changes nothing.
Seconds Typical(const std::deque<Seconds>& recent) {
  if (recent.empty()) return Seconds(0);
  std::vector<Seconds> sorted(recent.begin(), recent.end());
  std::sort(sorted.begin(), sorted.end());
  return sorted[(sorted.size() - 1) / 2];
}

}  // namespace

// Equation 37 of Daly's paper, as the header gives it. The expansion holds for ratio < 1; written
// as a negation so that a NaN takes the safe branch.
Seconds DalyInterval(Seconds cost, Seconds between_failures) {
  const double ratio = cost.count() / (2 * between_failures.count());
  if (!(ratio < 1)) return between_failures;
  const double first = std::sqrt(2 * cost.count() * between_failures.count());
  return Seconds(first * (1 + std::sqrt(ratio) / 3 + ratio / 9) - cost.count());
}

SnapshotInterval::SnapshotInterval(uint64_t fixed_steps, Seconds expected_time_between_failures)
    : fixed_steps_(fixed_steps),
      expected_time_between_failures_(expected_time_between_failures),
      steps_(fixed_steps > 0 ? fixed_steps : kFirstSteps) {}

void SnapshotInterval::ObserveSnapshot(Seconds blocked) {
  if (!(blocked > Seconds(0))) return;
  Remember(recent_blocked_, blocked);
  blocked_sum_ += blocked;
  ++snapshots_;
}

void SnapshotInterval::ObserveCopy(Seconds took) {
  if (took > Seconds(0)) Remember(recent_copies_, took);
}

// A snapshot that starts before the copy of the one before is complete protects no more against the
// loss of a node, but stops training once more.
Seconds SnapshotInterval::Best() const {
  return std::max(DalyInterval(Typical(recent_blocked_), TimeBetweenFailures()),
                  Typical(recent_copies_));
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
  const double best_steps = std::clamp(Best().count() / step_.count(), 1.0, 1e9);
  const auto now = static_cast<double>(steps_);
  // Hysteresis: each change is a command to all nodes and a message to the user.
  if (best_steps <= kMoved * now && best_steps >= now / kMoved) return false;
  const auto chosen = static_cast<uint64_t>(std::llround(best_steps));
  if (chosen == steps_) return false;
  steps_ = chosen;
  return true;
}

std::string SnapshotInterval::reason() const {
  if (fixed_steps_ > 0) return "fixed by the job";
  if (snapshots_ < kEnough || !(step_ > Seconds(0))) return "until three snapshots are measured";
  const auto text = [](Seconds seconds) {
    constexpr double kLongest = 1e9;  // some 30 years, which a Duration holds
    return ToString(DurationFromSeconds(std::min(seconds.count(), kLongest)));
  };
  const Seconds copy = Typical(recent_copies_);
  return "it stops training for " + text(Typical(recent_blocked_)) +
         ", and a failure is expected every " + text(TimeBetweenFailures()) + ": so one every " +
         text(Best()) + (Best() <= copy ? ", as long as the copy to another node takes" : "") +
         " (a step takes " + text(step_) + ")";
}

}  // namespace longhaul::runtime
