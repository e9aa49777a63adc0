// The parts of a transformer on one rank, as its dimensions divide them. Their formulas are those
// of model/reference.h.
#pragma once

#include <ATen/ATen.h>

#include "training/dimensions/rank.h"

namespace longhaul::training {

struct LayerOutput {
  at::Tensor values;
  at::Tensor balance;  // of experts, dimensions/expert.h; undefined in a layer without
};

// The residual stream [tokens, batch, hidden] through layer `layer`; with sequence parallelism the
// tokens are those of this part.
LayerOutput LayerForward(const at::Tensor& x, uint32_t layer, const WeightSet& weights,
                         RankContext& rank);

// The summed loss of the stream: norm, logits, cross entropy.
at::Tensor OutputForward(const at::Tensor& x, const at::Tensor& targets, const at::Tensor& mask,
                         const WeightSet& weights, RankContext& rank);

}  // namespace longhaul::training
