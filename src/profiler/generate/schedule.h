// In which order a stage of a pipeline runs its passes, as published.
//
// One forward, one backward: Narayanan et al., SC 2021, 2.2.1. Interleaved: 2.2.2 and Megatron-LM,
// where a stage has several chunks of the layers and micro-batches go round in groups as large as
// the pipeline. Zero bubble: ZB-H1 of Qi et al., ICLR 2024, where the gradients of the weights are
// passes of their own, as many behind their backward as the stage is from the first.
#pragma once

#include <vector>

namespace longhaul::profiler {

struct Pass {
  enum class Kind { kForward, kBackward, kWeights };

  Kind kind = Kind::kForward;
  int chunk = 0;
  bool last = false;  // of its kind and chunk in a step

  friend bool operator==(const Pass&, const Pass&) = default;
};

// Requires chunks >= 1; with more than one, micro-batches that the stages divide and no zero
// bubble.
std::vector<Pass> PassesOf(int stages, int stage, int micro_batches, int chunks, bool zero_bubble);

}  // namespace longhaul::profiler
