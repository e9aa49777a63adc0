#include "planner/time/software_stack.h"

namespace longhaul::planner {

SoftwareStack StackFor(std::string_view framework, std::string_view release) {
  SoftwareStack stack;
  static_cast<void>(release);
  if (framework == "megatron-lm" || framework == "megatron-deepspeed") {
    stack.tensor_backward_hidden = 0;
    stack.overlaps_sends = false;
    stack.attention = AttentionKernels::kFirst;
    stack.shard_bandwidth_share = 0.13;
    stack.splits_sends = framework == "megatron-lm";
  }
  if (framework == "llm-foundry") {
    stack.attention = AttentionKernels::kFirst;
    stack.fused_kernels = false;
  }
  return stack;
}

}  // namespace longhaul::planner
