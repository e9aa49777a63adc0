// The time of a pipeline for the micro-batches of a step.
//
// Tasks are (stage, chunk, micro-batch, forward or backward); each stage runs its own in the fixed
// order of the schedule, a task starts when its stage is free and its input has arrived. The time
// here is the closed form of that simulation for stages of unequal length: the slowest stage works
// without pause between filling and draining, and both are the sum of one chunk of every other
// stage. On equal stages this is the published bubble (Narayanan et al., SC 21, section 2.2; Qi et
// al., arXiv 2401.10241 for the zero-bubble schedules). Leaves out messages that collide.
#pragma once

#include <cstdint>
#include <span>

#include "spec/model/training.h"

namespace longhaul::planner {

// One micro-batch on one pipeline rank, all its chunks.
struct StageTime {
  double forward_s = 0;
  double backward_s = 0;         // with the weight gradients
  double weight_gradient_s = 0;  // of backward
};

struct PipelineShape {
  spec::PipelineSchedule schedule = spec::PipelineSchedule::kOneForwardOneBackward;
  uint32_t virtual_pipeline = 1;
  double micro_batches = 1;
  double send_s = 0;         // one message between neighbours
  double exposed_sends = 1;  // share of sends that a stage waits for in the steady state
};

struct PipelineTime {
  double total_s = 0;
  double sends_s = 0;    // of total: waiting for messages
  double bubble_s = 0;   // of total: the slowest stage idle otherwise
  uint32_t slowest = 0;  // stage
};

// Requires at least one stage and one micro-batch.
PipelineTime PipelineSeconds(std::span<const StageTime> stages, const PipelineShape& shape);

}  // namespace longhaul::planner
