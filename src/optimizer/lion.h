// Lion (Chen et al., Symbolic Discovery of Optimization Algorithms, NeurIPS 2023), one pass.
//
//   w -= rate * decay * w
//   w -= rate * sign(beta1 m + (1 - beta1) g')       sign(0) = 0
//   m = beta2 m + (1 - beta2) g'                     g' = scale * g
//
// Its authors use AdamW's rate divided by 3 to 10 and its decay times 3 to 10. Elementwise.
#pragma once

#include <span>

#include "optimizer/step.h"

namespace longhaul::optimizer {

struct Lion {
  double beta1 = 0.9;
  double beta2 = 0.99;
};

// Requires spans of one size; `momentum` is m, 0 at first.
void Update(const Lion& lion, const Step& step, std::span<float> weights,
            std::span<const float> gradients, std::span<float> momentum);

}  // namespace longhaul::optimizer
