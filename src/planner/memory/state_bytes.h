// Bytes of weights, gradients and optimizer states for each parameter on a rank, by recipe.
//
// Megatron (mixed precision after Micikevicius et al., arXiv 1710.03740, with fp32 main gradients):
// 2 + 4 + 12. DeepSpeed (Rajbhandari et al., arXiv 1910.02054): 2 + 2 + 12, and 2 more where bf16
// gradients are summed in fp32. PyTorch FSDP with fp32 parameters and bf16 compute: 4 + 4 + 8.
// Sharding: stage 1 divides the optimizer, 2 gradients too, 3 weights too.
#pragma once

#include "planner/framework.h"
#include "spec/model/training.h"

namespace longhaul::planner {

struct StateBytes {
  double weights = 2;
  double gradients = 4;
  double optimizer = 12;
  double step = 0;  // more during the optimizer step: fp32 copies of two-byte gradients
};

StateBytes StateBytesOf(const spec::Training& training, Family family);

}  // namespace longhaul::planner
