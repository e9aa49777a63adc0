// The order in which a stage of the built-in trainer's pipeline runs its micro-batches: one
// forward, one backward (Narayanan et al., PipeDream-Flush, ICML 2021; Megatron-LM, SC 2021).
//
// A stage first runs as many forwards as there are later stages, then forwards and backwards in
// turn, then the remaining backwards; so it holds at most pipeline - stage micro-batches.
#pragma once

#include <cstdint>
#include <vector>

namespace longhaul::planner {

struct PipelineAction {
  enum class Kind { kForward, kBackward };

  Kind kind = Kind::kForward;
  uint32_t micro_batch = 0;

  friend bool operator==(const PipelineAction&, const PipelineAction&) = default;
};

// Each micro-batch's forward and backward once, each backward after its forward. Requires
// stage < stages.
std::vector<PipelineAction> OneForwardOneBackward(uint32_t stages, uint32_t stage,
                                                  uint32_t micro_batches);

}  // namespace longhaul::planner
