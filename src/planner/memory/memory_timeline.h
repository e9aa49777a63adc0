// A rank's allocated memory over a step: when each stage is fullest, and why.
//
// The schedule is simulated task by task (time/simulate.h) with the stages' times; a forward adds
// what its chunk saves, a backward adds its own peak while it runs and then frees both. Before and
// after stand the states. Long steps are cut after enough micro-batches to fill and drain the
// pipeline twice, as between that nothing new happens. DualPipe is drawn as 1F1B, and zero-bubble
// schedules free at the data gradient. Leaves out transients of the forward and the optimizer
// step's.
#pragma once

#include <vector>

#include "planner/evaluation.h"
#include "planner/memory/memory_model.h"

namespace longhaul::planner {

// From `at` until the next point.
struct MemoryPoint {
  Seconds at;
  Bytes allocated;
};

struct MemoryTimeline {
  std::vector<MemoryPoint> points;  // in order of time, the first at zero
  uint32_t micro_batches = 0;       // drawn; fewer than the step's where that is long
};

// One a pipeline rank. Requires `evaluation` to be that of `training`.
std::vector<MemoryTimeline> MemoryTimelines(const spec::Training& training,
                                            const Evaluation& evaluation, MemoryModel& memory);

}  // namespace longhaul::planner
