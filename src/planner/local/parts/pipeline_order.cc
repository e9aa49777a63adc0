#include "planner/local/parts/pipeline_order.h"

#include <algorithm>

#include "base/check.h"

namespace longhaul::planner {

std::vector<PipelineAction> OneForwardOneBackward(uint32_t stages, uint32_t stage,
                                                  uint32_t micro_batches) {
  CHECK(stage < stages);
  const uint32_t ahead = std::min(micro_batches, stages - 1 - stage);
  std::vector<PipelineAction> actions;
  uint32_t forward = 0;
  for (; forward < ahead; ++forward) {
    actions.push_back({PipelineAction::Kind::kForward, forward});
  }
  for (uint32_t backward = 0; backward < micro_batches; ++backward) {
    if (forward < micro_batches) {
      actions.push_back({PipelineAction::Kind::kForward, forward++});
    }
    actions.push_back({PipelineAction::Kind::kBackward, backward});
  }
  return actions;
}

}  // namespace longhaul::planner
