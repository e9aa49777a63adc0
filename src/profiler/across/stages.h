// Which stage of the pipeline a rank is, and which schedule the pipeline runs.
//
// A rank's stage is its place in its pipeline group. The schedule is told by what the first stage
// sends, how often and where to:
//   activations to the next stage alone        1F1B, ZB-H1, ZB-H2
//   gradients from the first stage to the last interleaved: a chunk's gradients go round
//   as many gradients to the next stage        ZB-V, or DualPipe if the last stage sends
//   activations as activations                             before any have come
// ZB- schedules have weights' gradients as passes of their own; ZB-H2 runs about twice as many
// forwards before its first backward as ZB-H1. Taken for ZB-V is what else goes down and up again:
// V-Half, V-Min and DualPipeV; the user can name the schedule instead.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "profiler/across/profiled_job.h"
#include "profiler/across/schedule.h"

namespace longhaul::profiler {

struct Stages {
  std::vector<size_t> of;  // [rank]
  size_t count = 1;
  Schedule schedule = Schedule::kOneForwardOneBackward;
  uint64_t micro_batches = 0;  // a step; 0: not told by sends and receives
  uint64_t chunks = 1;         // of a stage's layers
  bool weight_passes = false;  // gradients of the weights are passes of their own
};

// `named`: the schedule, where the user knows it.
Stages FindStages(const ProfiledJob& job, std::optional<Schedule> named = {});

}  // namespace longhaul::profiler
