// How many steps lie between two snapshots, given the cost of a snapshot and the rate of faults.
//
// Daly's higher-order optimum (FGCS 22, 2006, equation 37) of Young's problem (CACM 1974). Let C be
// the time that training stops for a snapshot and M the mean time between failures. A snapshot
// every sqrt(2 C M) (1 + sqrt(C / 2M) / 3 + C / 18M) - C loses the least time, or every M where C
// is 2 M or more. The copy to a peer is a lower bound: a snapshot protects against the loss of a
// node only once its copy is complete, so the next one isn't taken before. Writing to disk takes
// the newest snapshot when the writer is free and needs no bound. Leaves out how much copies and
// writes slow the steps. M is estimated with a gamma prior worth one failure in the expected time:
// (expected + running) / (1 + failures).
#pragma once

#include <cstdint>
#include <deque>
#include <string>

#include "base/units.h"

namespace longhaul::runtime {

// Requires both above zero.
Seconds DalyInterval(Seconds cost, Seconds between_failures);

class SnapshotInterval {
 public:
  // Until three snapshots have been measured, there is one every kFirstSteps steps.
  static constexpr uint64_t kFirstSteps = 10;

  // With `fixed_steps` 0 the interval is chosen from measurements.
  SnapshotInterval(uint64_t fixed_steps, Seconds expected_time_between_failures);

  void ObserveSnapshot(Seconds blocked);
  void ObserveCopy(Seconds took);  // to another node's memory, asynchronously
  void ObserveStep(Seconds step);  // time for one step
  void ObserveRunning(Seconds time);
  void ObserveFailure();

  // Chooses again if the optimum is more than 1.5 times the present interval, or less than it
  // divided by 1.5. Returns whether the interval changed.
  bool Update();

  uint64_t steps() const { return steps_; }
  std::string reason() const;    // as a text, with the numbers used
  Seconds mean_blocked() const;  // of all snapshots; 0 if there are none

 private:
  Seconds TimeBetweenFailures() const;
  // Returns the best time between two snapshots, given the measurements.
  Seconds Best() const;

  uint64_t fixed_steps_;
  Seconds expected_time_between_failures_;
  // The median of the newest few is used, because one slow snapshot (a page's first touch, a busy
  // machine) doesn't predict the next.
  std::deque<Seconds> recent_blocked_;
  std::deque<Seconds> recent_copies_;
  Seconds blocked_sum_{0};
  uint64_t snapshots_ = 0;
  Seconds step_{0};  // moving average
  Seconds running_{0};
  uint64_t failures_ = 0;
  uint64_t steps_;
};

}  // namespace longhaul::runtime
