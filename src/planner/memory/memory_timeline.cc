#include "planner/memory/memory_timeline.h"

#include <algorithm>

#include "base/check.h"
#include "planner/time/simulate.h"

namespace longhaul::planner {

namespace {

// Micro-batches that show filling, draining and a steady part between.
uint32_t Drawn(const spec::Layout& layout, uint32_t micro_batches) {
  return std::min(micro_batches, 4 * layout.pipeline);
}

std::vector<PipelineTask> Tasks(const spec::Layout& layout, const Evaluation& evaluation,
                                uint32_t micro_batches) {
  std::vector<StageTime> stages;
  for (const StageEvaluation& stage : evaluation.stages) {
    // A stage without layers still takes its turn.
    const double forward = std::max(stage.forward.count(), 1e-9);
    const double backward = std::max(stage.backward.count(), 1e-9);
    stages.push_back({forward, backward, backward / 2});
  }
  PipelineShape shape;
  shape.schedule = layout.schedule;
  // `SimulatePipeline` leaves out DualPipe; 1F1B is drawn in its place.
  if (shape.schedule == spec::PipelineSchedule::kDualPipe) {
    shape.schedule = spec::PipelineSchedule::kOneForwardOneBackward;
  }
  shape.virtual_pipeline = layout.virtual_pipeline;
  shape.micro_batches = micro_batches;
  return SimulatePipeline(stages, shape);
}

// Everything of the stage that is there all the time.
Bytes Fixed(const MemoryBreakdown& memory) {
  return memory.weights + memory.gradients + memory.optimizer + memory.dummy_gradients +
         memory.workspace;
}

}  // namespace

std::vector<MemoryTimeline> MemoryTimelines(const spec::Training& training,
                                            const Evaluation& evaluation, MemoryModel& memory) {
  const spec::Layout& layout = training.layout;
  CHECK(evaluation.stages.size() == layout.pipeline);
  const uint32_t drawn = Drawn(layout, std::max(1u, evaluation.micro_batches));
  std::vector<MemoryTimeline> timelines(layout.pipeline);
  std::vector<Bytes> live;
  for (uint32_t i = 0; i < layout.pipeline; ++i) {
    live.push_back(Fixed(evaluation.stages[i].memory));
    timelines[i].micro_batches = drawn;
    timelines[i].points.push_back({Seconds(0), live.back()});
  }
  for (const PipelineTask& task : Tasks(layout, evaluation, drawn)) {
    const uint32_t chunk = std::min(task.chunk, layout.virtual_pipeline - 1);
    const ChunkMemory bytes = memory.Chunk(training, task.stage, chunk);
    std::vector<MemoryPoint>& points = timelines[task.stage].points;
    Bytes& level = live[task.stage];
    if (task.pass == PassKind::kForward) {
      level += bytes.saved;
      points.push_back({Seconds(task.end_s), level});
    } else if (task.pass == PassKind::kBackward) {
      points.push_back({Seconds(task.start_s), level + bytes.backward});
      level -= bytes.saved;
      points.push_back({Seconds(task.end_s), level});
    }
  }
  return timelines;
}

}  // namespace longhaul::planner
