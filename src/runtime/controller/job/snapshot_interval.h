// How many steps lie between two snapshots: from what a snapshot costs and how often faults come.
//
// Daly's higher-order optimum (FGCS 22, 2006, equation 37) of Young's problem (CACM 1974): with C
// the time that training stops for a snapshot and M the mean time between failures, a snapshot
// every sqrt(2 C M) (1 + sqrt(C / 2M) / 3 + C / 18M) - C loses least, and every M where C is 2 M or
// more. What follows a snapshot asynchronously bounds it from below: a snapshot is of use against
// the loss of a node once its copy has arrived, so the next one isn't taken before the last copy
// had time to. Persisting takes the newest when it is free and needs no bound. Leaves out: by how
// much copies and writes slow the steps beside them. M is estimated with a gamma prior worth one
// failure in the expected time: (expected + running) / (1 + failures).
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
  // Until three snapshots have been measured there is one every kFirstSteps steps.
  static constexpr uint64_t kFirstSteps = 10;

  // `fixed_steps` 0: chosen from what is measured.
  SnapshotInterval(uint64_t fixed_steps, Seconds expected_time_between_failures);

  void ObserveSnapshot(Seconds blocked);
  void ObserveCopy(Seconds took);  // to another node's memory, asynchronously
  void ObserveStep(Seconds step);  // time for one step
  void ObserveRunning(Seconds time);
  void ObserveFailure();

  // Chooses again if the optimum has moved to more than 1.5 times the present answer or to less
  // than its 1.5th part; whether the answer changed.
  bool Update();

  uint64_t steps() const { return steps_; }
  std::string reason() const;    // in words, with the numbers used
  Seconds mean_blocked() const;  // of all snapshots; 0 without one

 private:
  Seconds TimeBetweenFailures() const;
  // The best time between two snapshots, of what has been measured.
  Seconds Best() const;

  uint64_t fixed_steps_;
  Seconds expected_time_between_failures_;
  // The median of the newest few is used: one slow snapshot (a page's first touch, a busy machine)
  // says little about the next.
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
