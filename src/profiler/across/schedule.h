// The order of a pipeline stage's passes in the published schedules, and the places of its chunks.
//
//   1F1B         one forward, one backward: Narayanan et al., SC 2021, 2.2.1
//   interleaved  2.2.2 and Megatron-LM: a stage has several chunks of the layers, micro-batches go
//                round in groups as large as the pipeline
//   ZB-H1        Qi et al., ICLR 2024 (arXiv 2401.10241), 2.1: gradients of the weights are
//                separate passes, as many after their backward as the stage is from the first
//   ZB-H2        2.2: twice as many forwards ahead, twice as far behind; stages shift against each
//                other from step to step, no step ends on all at once
//   ZB-V         Qi et al., NeurIPS 2024 (arXiv 2405.15362): the layers go down the stages and up
//                again, so that a stage has two chunks and the first one both ends of the model
//   DualPipe     DeepSeek-V3 (arXiv 2412.19437), 3.2.1: micro-batches from both ends; each stage
//                has
//                two chunks, one for either direction; a forward of one runs together with a
//                backward of the other
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

namespace longhaul::profiler {

enum class Schedule : uint8_t {
  kOneForwardOneBackward,
  kInterleaved,
  kZeroBubbleH1,
  kZeroBubbleH2,
  kZeroBubbleV,
  kDualPipe,
};
constexpr size_t kSchedules = 6;
std::string_view ToString(Schedule schedule);
// Finds a schedule by that name, in upper or lower case.
std::optional<Schedule> ParseSchedule(std::string_view name);

struct PipelineShape {
  Schedule schedule = Schedule::kOneForwardOneBackward;
  int stages = 1;
  int micro_batches = 1;  // per step; for DualPipe of both directions
  int chunks = 1;         // of a stage's layers: 2 of ZB-V and DualPipe, 1 of ZB-H1, ZB-H2 and 1F1B
};

// Whether the schedule is defined for these numbers of stages and micro-batches: interleaved needs
// a multiple of the stages as micro-batches, DualPipe an even number of stages and an even number
// of micro-batches of at least twice the stages.
bool IsDefined(const PipelineShape& shape);

struct Pass {
  // kBackward computes both gradients, kInputs those of the inputs, kWeights those of the weights.
  enum class Kind : uint8_t { kForward, kBackward, kInputs, kWeights };

  Kind kind = Kind::kForward;
  int chunk = 0;
  bool last = false;    // the last one of a step with gradients of the chunk's weights
  bool joined = false;  // runs together with the next one: both begin when both can

  friend bool operator==(const Pass&, const Pass&) = default;
};

// The passes of a step. Requires that the shape is defined.
std::vector<Pass> PassesOf(const PipelineShape& shape, int stage);

// The number of them that are kWeights.
int WeightPasses(const PipelineShape& shape, int stage);

// The place of a stage's chunk on its line of chunks through the model. DualPipe has a line for
// each direction.
struct ModelPlace {
  int line = 0;
  int at = 0;
};
ModelPlace PlaceOf(const PipelineShape& shape, int stage, int chunk);
// The inverse functions.
int StageAt(const PipelineShape& shape, ModelPlace place);
int ChunkAt(const PipelineShape& shape, ModelPlace place);
// The number of chunks on a line.
int LineLength(const PipelineShape& shape);

}  // namespace longhaul::profiler
