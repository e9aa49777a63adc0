// The operators of a transformer on one rank. Activations are [tokens, batch, width].
#pragma once

#include <ATen/ATen.h>

#include <span>

#include "training/config.h"
#include "training/model/weights.h"

namespace longhaul::training {

// x / sqrt(mean(x^2) + epsilon) * weight (Zhang and Sennrich, RMSNorm, 2019).
at::Tensor RmsNorm(const at::Tensor& x, const at::Tensor& weight, double epsilon);

// RMS or layer norm, as the model has it, of the weights `name`.weight and `name`.bias.
at::Tensor Norm(const ModelConfig& config, const at::Tensor& x, const WeightSet& weights,
                const std::string& name);

// Rotary positions (Su et al., RoFormer, 2021) in the arrangement of Llama: the first half of a
// head is rotated with the second one. x is [tokens, batch, heads, width], positions [tokens].
struct Rotation {
  at::Tensor cosine;  // [tokens, 1, 1, width / 2]
  at::Tensor sine;
};
Rotation RotationOf(const at::Tensor& positions, int64_t width, double theta, at::ScalarType type);
at::Tensor Rotate(const at::Tensor& x, const Rotation& rotation);

at::Tensor Activate(const ModelConfig& config, const at::Tensor& x);

// x weight^T + bias. The gradients of weight and bias are added to their buffers, without a copy
// in between, and later if `deferred` collects. `bias` may be null.
at::Tensor Multiply(const at::Tensor& x, const Weight& weight, const Weight* bias,
                    DeferredGradients& deferred);
at::Tensor Multiply(const at::Tensor& x, const WeightSet& weights, const std::string& name,
                    DeferredGradients& deferred);  // `name`.weight and, if there is one, .bias

// [queries, keys]: -inf where the key's position is after the query's.
at::Tensor CausalMask(const at::Tensor& query_positions, const at::Tensor& key_positions,
                      at::ScalarType type);

}  // namespace longhaul::training
