#include "planner/evaluation.h"

namespace longhaul::planner {

Seconds StepBreakdown::total() const {
  return forward + backward + recompute + tensor_exposed + context_exposed + expert_exposed +
         pipeline_exposed + bubble + data_exposed + optimizer + offload_exposed + host + straggle;
}

Bytes MemoryBreakdown::total() const {
  return weights + gradients + optimizer + gathered + dummy_gradients + activations + loss +
         transient + workspace;
}

}  // namespace longhaul::planner
