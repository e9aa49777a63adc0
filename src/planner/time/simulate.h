// The pipeline's schedule, task by task: for time lines, traces, and as the reference for the
// closed form in schedule.h.
//
// Each stage runs its tasks in the fixed order of the schedule: GPipe (Huang et al., 2019), 1F1B
// and interleaved 1F1B (Narayanan et al., SC 21; Megatron's order by groups of as many
// micro-batches as there are stages). A task starts when its stage is free and its input has
// arrived. Zero-bubble H1 and V (Qi et al., arXiv 2401.10241 and 2405.15362) split backward and
// choose at each moment: a data gradient before a forward, as long as no more micro-batches are
// held than the schedule allows, and weight gradients where nothing else can run. Between filling
// and draining a schedule repeats, so long steps are simulated short and extrapolated by the
// period. Leaves out DualPipe, whose two directions share ranks: its time is the closed form.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "planner/time/schedule.h"

namespace longhaul::planner {

enum class PassKind : uint8_t { kForward, kBackward, kWeightGradient };

struct PipelineTask {
  uint32_t stage = 0;  // pipeline rank
  uint32_t chunk = 0;  // of the rank
  uint32_t micro_batch = 0;
  PassKind pass = PassKind::kForward;
  double start_s = 0;
  double end_s = 0;
};

// All tasks of a step, by stage and then in the order in which they ran. Requires stages, whole
// micro-batches of fewer than 500,000 pairs of chunk and micro-batch in all, and a schedule other
// than kDualPipe; kZeroBubbleV always has two chunks, regardless of the shape.
std::vector<PipelineTask> SimulatePipeline(std::span<const StageTime> stages,
                                           const PipelineShape& shape);

// The time at which the last task ends. Simulates at most seventeen periods and extrapolates;
// within 0.5 % of a full simulation where stages differ little.
double SimulatedSeconds(std::span<const StageTime> stages, const PipelineShape& shape);

}  // namespace longhaul::planner
