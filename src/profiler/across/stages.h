// Finds each rank's pipeline stage, and the schedule that the pipeline runs.
//
// A rank's stage is its position in its pipeline group. The schedule follows from the sends of the
// first stage, their number and their destination:
//   activations to the next stage alone        1F1B, ZB-H1, ZB-H2
//   gradients from the first stage to the last interleaved: a chunk's gradients go round
//   as many gradients to the next stage        ZB-V, or DualPipe if the last stage sends
//   activations as activations                             before any have come
// ZB- schedules have separate passes for weights' gradients; ZB-H2 runs about twice as many
// forwards before its first backward as ZB-H1. Other schedules that go down and up again (V-Half,
// V-Min and DualPipeV) are reported as ZB-V; the user can name the schedule instead.
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
  uint64_t micro_batches = 0;  // per step; 0: sends and receives do not show it
  uint64_t chunks = 1;         // of a stage's layers
  bool weight_passes = false;  // gradients of the weights are separate passes
};

// `named`: the schedule, where the user gives it.
Stages FindStages(const ProfiledJob& job, std::optional<Schedule> named = {});

}  // namespace longhaul::profiler
