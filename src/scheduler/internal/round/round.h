// One scheduling round: runs all passes over the state in a fixed order.
//
// scheduler.h describes the order. A pass uses the results of the passes before it: for example,
// preemption only considers jobs for which the walk of the waiting jobs found no room.
#pragma once

#include <cstdint>
#include <vector>

#include "scheduler/internal/round/round_context.h"

namespace longhaul::scheduler::internal {

class Round {
 public:
  // `state` and `placer` outlive the round, which may use so many placements and search steps.
  Round(SchedulerState& state, Placer& placer, int64_t steps) : context_(state, placer, steps) {}

  // Changes the state and returns the decisions in the order in which they were made, those that
  // the state had stored for this round first. Requires that it is called once.
  std::vector<Decision> Run();

  // Whether Run used all its steps, so that some jobs were not considered.
  bool unfinished() const { return context_.steps_left <= 0; }

 private:
  RoundContext context_;
};

}  // namespace longhaul::scheduler::internal
