// How many steps lie between two snapshots: from what a snapshot costs and how often faults come.
//
// Young's first-order optimum (CACM 1974; Daly, FGCS 2006): with `blocked` the time that training
// stops for a snapshot and M the mean time between failures, a snapshot every sqrt(2 * blocked * M)
// loses least. M is estimated with a gamma prior worth one failure in the expected time:
// (expected + running) / (1 + failures).
#pragma once

#include <cstdint>
#include <deque>
#include <string>

#include "base/units.h"

namespace longhaul::runtime {

class SnapshotInterval {
 public:
  // Until three snapshots have been measured there is one every kFirstSteps steps.
  static constexpr uint64_t kFirstSteps = 10;

  // `fixed_steps` 0: chosen from what is measured.
  SnapshotInterval(uint64_t fixed_steps, Seconds expected_time_between_failures);

  void ObserveSnapshot(Seconds blocked);
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

  uint64_t fixed_steps_;
  Seconds expected_time_between_failures_;
  // The median of the newest few is used: one slow snapshot (a page's first touch, a busy machine)
  // says little about the next.
  Seconds TypicalBlocked() const;
  std::deque<Seconds> recent_blocked_;
  Seconds blocked_sum_{0};
  uint64_t snapshots_ = 0;
  Seconds step_{0};  // moving average
  Seconds running_{0};
  uint64_t failures_ = 0;
  uint64_t steps_;
};

}  // namespace longhaul::runtime
