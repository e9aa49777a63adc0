// The plain model: one device, no division, no code in common with the engine except what a layer's
// formulas are named after. Every layout must compute what this computes (conformance/).
//
//   x = token[t] (+ position)
//   x += output(attention(query, key, value of norm(x)))      causal, heads share keys in groups
//   x += down(act(gate(norm(x))) * up(norm(x)))               or down(act(up(norm(x)))), or experts
//   logits = output(norm(x));  loss = -log softmax(logits)[next token]
#pragma once

#include <ATen/ATen.h>

#include <map>
#include <string>

#include "training/config.h"

namespace longhaul::training {

// Whole parameters by name (parameters.h).
using WholeWeights = std::map<std::string, at::Tensor>;

// Tokens [batch, length] -> logits [batch, length, vocabulary]. `balance` receives the sum over the
// batch and the layers of the loss that balances experts (dimensions/expert.h), if it is not null.
at::Tensor ReferenceLogits(const ModelConfig& config, const WholeWeights& weights,
                           const at::Tensor& tokens, at::Tensor* balance = nullptr);

// The initial weights by the seed, as leaves with gradients.
WholeWeights InitialWeights(const ModelConfig& config, uint64_t seed, at::ScalarType type);

}  // namespace longhaul::training
