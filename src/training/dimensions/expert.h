// A mixture of experts, whose experts may be divided over ranks that have different tokens.
//
// A router chooses `top_k` experts for each token by the softmax of its logits; no token is
// dropped. Each token goes to the ranks of its experts (all-to-all, the counts first) and comes
// back. The loss that balances experts is a sequence's own (DeepSeek-V3, arXiv 2412.19437,
// equations 17 to 20), so that it does not depend on how a batch is divided:
//   load[e] = count / top_k * tokens chosen for e / tokens;  balance = sum of load[e] * mean
//   share[e]
#pragma once

#include <ATen/ATen.h>

#include "training/dimensions/rank.h"

namespace longhaul::training {

struct MixtureOutput {
  at::Tensor values;  // [tokens, batch, hidden]: this part's share of the sum over the tensor group
  at::Tensor balance;  // summed over sequences; the sum over tensor and context group is the whole
};

// `x` is what EnterTensor returns: all tokens of the rank's sequences in its context group.
MixtureOutput MixtureOfExperts(const at::Tensor& x, const WeightSet& weights, RankContext& rank);

}  // namespace longhaul::training
