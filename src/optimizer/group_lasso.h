// Optimizers that drop whole rows of a matrix: sparse group lasso in the frame of Adam and of
// AdaGrad (Yue et al., Adaptive Optimizers with Sparse Group Lasso for Neural Networks in CTR
// Prediction, ECML-PKDD 2021). A group is a row x of d floats, for example an embedding.
//
// Group Adam, with A = rate sqrt(1 - beta2^t) / (1 - beta1^t), L1 = l1 * rate, L2 = l2 * rate and
// L21 = l21 * rate * sqrt(d):
//   m = beta1 m + (1 - beta1) g        v' = beta2 v + (1 - beta2) g^2
//   z += A m - (sqrt(v') - sqrt(v) + (epsilon at t = 1)) x
//   s = clamp(z, -L1, L1) - z          r = |s|
//   x = r > L21 ? (1 - L21 / r) s / (sqrt(v') + epsilon + 2 L2) : 0
//
// Group AdaGrad, which is group FTRL for any power (the paper's group lasso in FTRL-proximal of
// McMahan et al., Ad Click Prediction: a View from the Trenches, KDD 2013, whose power is 1/2;
// implementations name it learning_rate_power = -power). Powers other than 1/2 are not vectorised:
//   n' = n + g^2                       z += g - (n'^power - n^power) / rate * x
//   s = clamp(z, -l1, l1) - z          r = |s|
//   x = r > l21 sqrt(d) ? (1 - l21 sqrt(d) / r) s / (n'^power / rate + 2 l2) : 0
//
// Without penalties they are Adam in the form w -= A m / (sqrt(v) + epsilon), and AdaGrad. The
// state z belongs to the weights: Begin sets it for weights that are not 0.
#pragma once

#include <cstddef>
#include <span>

#include "optimizer/step.h"

namespace longhaul::optimizer {

struct Penalties {
  double l1 = 0;
  double l2 = 0;
  double l21 = 0;  // of a group, times the square root of its size
};

struct GroupAdam {
  double beta1 = 0.9;
  double beta2 = 0.999;
  double epsilon = 1e-8;
  Penalties penalties;
};

struct GroupAdaGrad {
  double power = 0.5;
  double initial = 0.1;  // n at first
  Penalties penalties;
};

// All spans have rows * columns floats; a rank may hold some of the rows. step.decay has no effect.
// `first`, `second` and `offset` are m, v and z. Returns the number of rows that are 0.
size_t Update(const GroupAdam& adam, const Step& step, size_t columns, std::span<float> weights,
              std::span<const float> gradients, std::span<float> first, std::span<float> second,
              std::span<float> offset);

// Sets n and z for these weights before the first step: z = -initial^power / rate * x.
void Begin(const GroupAdaGrad& adagrad, double rate, std::span<const float> weights,
           std::span<float> sum, std::span<float> offset);
// `sum` and `offset` are n and z. Requires one rate for all steps, that of Begin. Returns the
// number of rows that are 0.
size_t Update(const GroupAdaGrad& adagrad, const Step& step, size_t columns,
              std::span<float> weights, std::span<const float> gradients, std::span<float> sum,
              std::span<float> offset);

}  // namespace longhaul::optimizer
