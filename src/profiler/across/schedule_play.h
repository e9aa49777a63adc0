// The idle time of a schedule's stages, by simulation of a step.
//
// Each stage runs its passes in the schedule's order (across/schedule.h), each as soon as the stage
// is free and its input has arrived from the neighbour. All stages are alike and messages take no
// time. A stage idles for the time from its first pass to its last less its passes; the largest
// idle time counts, as in Qi et al. (ICLR 2024): from the second step on all have it. Published
// are, with passes of F, I (inputs), W (weights), p stages and enough micro-batches:
//   1F1B         (p - 1) (F + I + W)
//   interleaved  a v-th of that
//   ZB-H1        (p - 1) (F + I - W)
//   ZB-H2        (p - 1) (F + I - 2 W)
//   ZB-V         0 where F = I = W
//   DualPipe     (p / 2 - 1) (F&B + B - 3 W), B = I + W, F&B the two together
// The result equals 1F1B's and interleaved's always, ZB-H1's and ZB-H2's where W is at most F and
// I, and the others' where F = I = W: elsewhere it is what the order itself can reach.
#pragma once

#include "profiler/across/schedule.h"

namespace longhaul::profiler {

// The times of one chunk, in any unit.
struct PassTimes {
  double forward = 0;
  double inputs = 0;   // gradients
  double weights = 0;  // gradients
};

// In the unit of the times, per step. Zero where the schedule is not defined for the shape, and for
// more than 1,024 stages.
double IdleOf(const PipelineShape& shape, const PassTimes& times);

}  // namespace longhaul::profiler
