// How long a schedule has its stages idle, found by playing a step of it.
//
// Each stage runs its passes in the schedule's order (across/schedule.h), each as soon as the stage
// is free and what it works on has come from the neighbour. All stages are alike and messages take
// no time. A stage idles for what it takes from its first pass to its last less its passes; the
// stage that idles longest counts, as Qi et al. (ICLR 2024) have it: from the second step on all
// do. Published are, with passes of F, I (inputs), W (weights), p stages and enough micro-batches:
//   1F1B         (p - 1) (F + I + W)
//   interleaved  a v-th of that
//   ZB-H1        (p - 1) (F + I - W)
//   ZB-H2        (p - 1) (F + I - 2 W)
//   ZB-V         0 where F = I = W
//   DualPipe     (p / 2 - 1) (F&B + B - 3 W), B = I + W, F&B the two together
// Playing gives 1F1B's and interleaved's always, ZB-H1's and ZB-H2's where W is at most F and I,
// and the others' where F = I = W: elsewhere what it gives is what the order itself can reach.
#pragma once

#include "profiler/across/schedule.h"

namespace longhaul::profiler {

// Of one chunk, in any unit.
struct PassTimes {
  double forward = 0;
  double inputs = 0;   // gradients
  double weights = 0;  // gradients
};

// In the unit of the times, a step. Zero where the schedule isn't defined for the shape, and of
// more than 1,024 stages.
double IdleOf(const PipelineShape& shape, const PassTimes& times);

}  // namespace longhaul::profiler
