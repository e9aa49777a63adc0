#include "planner/memory/held.h"

#include <algorithm>

#include "base/check.h"

namespace longhaul::planner {

void HeldMicroBatches(const spec::Layout& layout, bool overlap_expert, uint32_t stage,
                      uint32_t micro_batches, std::span<uint32_t> held) {
  const uint32_t stages = layout.pipeline;
  const uint32_t chunks = layout.virtual_pipeline;
  CHECK(stage < stages && held.size() == chunks && micro_batches >= 1);
  const uint32_t extra = overlap_expert ? 1 : 0;
  const auto fill = [&](uint32_t most) {
    std::fill(held.begin(), held.end(), std::min(micro_batches, most));
  };
  switch (layout.schedule) {
    case spec::PipelineSchedule::kGpipe:
      return fill(micro_batches);
    case spec::PipelineSchedule::kZeroBubbleV:
      return fill(stages);
    case spec::PipelineSchedule::kDualPipe:
      return fill(stages + 1);
    case spec::PipelineSchedule::kOneForwardOneBackward:
    case spec::PipelineSchedule::kZeroBubbleH1:
      break;
  }
  // 1F1B: a stage runs a forward for itself and for each later stage before its first backward.
  if (chunks == 1) return fill(stages - stage + extra);
  // Warm-up walks the chunks in groups of `stages` micro-batches; then one comes for one that goes.
  const uint64_t units = std::min<uint64_t>(
      uint64_t{micro_batches} * chunks,
      uint64_t{2} * (stages - stage - 1) + uint64_t{chunks - 1} * stages + 1 + extra);
  const uint64_t round = uint64_t{stages} * chunks;
  const uint64_t whole = units / round * stages;
  uint64_t rest = units % round;
  for (uint32_t& of_chunk : held) {
    const uint64_t partly = std::min<uint64_t>(rest, stages);
    rest -= partly;
    of_chunk = static_cast<uint32_t>(std::min<uint64_t>(whole + partly, micro_batches));
  }
}

}  // namespace longhaul::planner
