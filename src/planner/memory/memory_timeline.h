// A rank's allocated memory over a step: time and cause of each stage's peak.
//
// The schedule is simulated task by task (time/simulate.h) with the stages' times; a forward adds
// the tensors that its chunk saves, a backward adds its own peak while it runs and then frees both.
// States are always allocated. Long steps are cut after enough micro-batches to fill and drain the
// pipeline twice, as the time between repeats. DualPipe is drawn as 1F1B, and zero-bubble schedules
// free at the data gradient. Leaves out transients of forward and optimizer step.
// step's.
#pragma once

#include <vector>

#include "planner/evaluation.h"
#include "planner/memory/memory_model.h"

namespace longhaul::planner {

// The allocated bytes from `at` until the next point.
struct MemoryPoint {
  Seconds at;
  Bytes allocated;
};

struct MemoryTimeline {
  std::vector<MemoryPoint> points;  // in order of time, the first at zero
  uint32_t micro_batches = 0;       // in the drawing; fewer than the step's where that is long
};

// One for each pipeline rank. Requires `evaluation` to be that of `training`.
std::vector<MemoryTimeline> MemoryTimelines(const spec::Training& training,
                                            const Evaluation& evaluation, MemoryModel& memory);

}  // namespace longhaul::planner
