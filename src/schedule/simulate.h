// The times of a schedule's computations from their durations, without a machine.
//
// A rank does its groups in their order. A computation begins when the one before has ended; a send
// takes no time of its rank and arrives after the transfer's time; a receive waits for that.
// Requires a schedule that Verify finds correct for some number of buffers.
#pragma once

#include <cstdint>
#include <vector>

#include "schedule/schedule.h"

namespace longhaul::schedule {

// Any unit of time. By stage, or one value for all stages.
struct Durations {
  std::vector<double> forward = {1};
  std::vector<double> backward = {1};
  std::vector<double> weights = {1};
  double transfer = 0;

  double Of(Kind kind, uint32_t stage) const;
};

struct Timed {
  Action action;
  double begin = 0;
  double end = 0;
};

struct Timeline {
  std::vector<std::vector<Timed>> ranks;  // the computations of each rank
  double makespan = 0;                    // from the first begin to the last end

  // The greatest share of the time between its first and last computation that a rank is idle.
  double LargestIdleShare() const;
  // The mean share of the makespan that the ranks are idle.
  double BubbleShare() const;
};

Timeline Simulate(const Schedule& schedule, const Durations& durations);

}  // namespace longhaul::schedule
