#include "planner/memory/held.h"

#include <algorithm>

#include "base/check.h"

namespace longhaul::planner {

uint32_t HeldMicroBatches(const spec::Layout& layout, bool overlap_expert, uint32_t stage,
                          uint32_t chunk, uint32_t micro_batches) {
  const uint32_t stages = layout.pipeline;
  const uint32_t chunks = layout.virtual_pipeline;
  CHECK(stage < stages && chunk < chunks && micro_batches >= 1);
  const uint32_t extra = overlap_expert && stages > 1 ? 1 : 0;
  uint32_t held = micro_batches;
  switch (layout.schedule) {
    case spec::PipelineSchedule::kGpipe:
      return micro_batches;
    case spec::PipelineSchedule::kZeroBubbleV:
      held = stages;
      return std::min(micro_batches, held);
    case spec::PipelineSchedule::kDualPipe:
      held = stages + 1;
      return std::min(micro_batches, held);
    case spec::PipelineSchedule::kOneForwardOneBackward:
    case spec::PipelineSchedule::kZeroBubbleH1:
      break;
  }
  if (chunks == 1) return std::min(micro_batches, stages - stage + extra);
  // Warm-up walks the chunks in groups of `stages` micro-batches; then one comes for one that goes.
  const uint64_t units = std::min<uint64_t>(
      uint64_t{micro_batches} * chunks,
      uint64_t{2} * (stages - stage - 1) + uint64_t{chunks - 1} * stages + 1 + extra);
  const uint64_t round = uint64_t{stages} * chunks;
  const uint64_t rest = units % round;
  const uint64_t first = uint64_t{chunk} * stages;
  const uint64_t partly = rest > first ? std::min<uint64_t>(rest - first, stages) : 0;
  return static_cast<uint32_t>(std::min<uint64_t>(units / round * stages + partly, micro_batches));
}

}  // namespace longhaul::planner
