// The optimizer's rule on a slice of a bucket, in the type of the training.
#pragma once

#include <ATen/ATen.h>

#include <cstdint>

namespace longhaul::training {

enum class RuleKind { kGradientDescent, kAdamW };

struct Rule {
  RuleKind kind = RuleKind::kAdamW;
  double beta1 = 0.9;
  double beta2 = 0.95;
  double epsilon = 1e-8;
};

struct UpdateStep {
  uint64_t number = 1;
  double rate = 0;
  double decay = 0;  // of matrices
  double scale = 1;  // of the gradients
};

// In f32 the kernels of module optimizer, in f64 the same formulas. Flat tensors of one size.
void ApplyRule(const Rule& rule, const UpdateStep& step, at::Tensor& weights,
               const at::Tensor& gradients, at::Tensor& first, at::Tensor& second);

}  // namespace longhaul::training
