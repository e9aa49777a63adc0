#include "planner/time/schedule.h"

#include <algorithm>

#include "base/check.h"

namespace longhaul::planner {
namespace {

using spec::PipelineSchedule;

// Seconds that filling and draining take from the slowest stage for another stage's one chunk.
double FillSeconds(const StageTime& stage, const PipelineShape& shape) {
  const double chunks = shape.virtual_pipeline;
  const double both = stage.forward_s + stage.backward_s;
  const double data = stage.backward_s - stage.weight_gradient_s;
  switch (shape.schedule) {
    case PipelineSchedule::kGpipe:
    case PipelineSchedule::kOneForwardOneBackward:
      return both / chunks;
    case PipelineSchedule::kZeroBubbleH1:
      return std::max(0.0, stage.forward_s + data - stage.weight_gradient_s);
    case PipelineSchedule::kZeroBubbleV:
      // Nothing is idle where the three passes are equal; what they differ by is.
      return std::max({stage.forward_s, data, stage.weight_gradient_s}) -
             std::min({stage.forward_s, data, stage.weight_gradient_s});
    case PipelineSchedule::kDualPipe:
      return std::max(0.0, 0.5 * (both + data - 3 * stage.weight_gradient_s));
  }
  return both;
}

}  // namespace

PipelineTime PipelineSeconds(std::span<const StageTime> stages, const PipelineShape& shape) {
  CHECK(!stages.empty() && shape.micro_batches > 0);
  PipelineTime time;
  double slowest = -1;
  double fill = 0;
  double longest_fill = 0;
  for (size_t i = 0; i < stages.size(); ++i) {
    const double both = stages[i].forward_s + stages[i].backward_s;
    const double own_fill = FillSeconds(stages[i], shape);
    fill += own_fill;
    longest_fill = std::max(longest_fill, own_fill);
    if (both > slowest) {
      slowest = both;
      time.slowest = static_cast<uint32_t>(i);
    }
  }
  const double busy = slowest * shape.micro_batches;
  time.total_s = busy;
  if (stages.size() == 1) return time;
  // Not the slowest's own: at a tie the whole would fall when one stage gets slower.
  fill -= longest_fill;
  const double hops = static_cast<double>(stages.size() - 1);
  // Interleaving sends each chunk's activations; groups of micro-batches that the stages don't
  // divide leave a gap a group.
  const double chunks = shape.virtual_pipeline;
  const double steady = 2 * shape.micro_batches * chunks * shape.send_s * shape.exposed_sends;
  time.sends_s = 2 * hops * shape.send_s + steady;
  time.bubble_s = fill;
  time.total_s = busy + time.bubble_s + time.sends_s;
  return time;
}

}  // namespace longhaul::planner
