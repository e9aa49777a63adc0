// AGD (Yue et al., AGD: an Auto-switchable Optimizer using Stepwise Gradient Difference, NeurIPS
// 2023), one pass. The second moment is of the difference between two bias-corrected momenta:
//
//   m' = beta1 m + (1 - beta1) g'                    g' = scale * g
//   s = m' / (1 - beta1^t) - m / (1 - beta1^(t-1))   at t = 1 without the second term
//   b = beta2 b + (1 - beta2) s^2                    m = m'
//   w -= rate * decay * w
//   w -= rate * sqrt(1 - beta2^t) / (1 - beta1^t) * m / max(sqrt(b), delta sqrt(1 - beta2^t))
//
// Below the floor it is momentum SGD with the rate rate / delta. As m_t - m_(t-1) =
// (1 - beta1) / beta1 (g_t - m_t), it tends to AdaBelief with the rate rate * beta1 / (1 - beta1),
// which is why its authors use a tenth of AdamW's rate. Elementwise.
#pragma once

#include <span>

#include "optimizer/step.h"

namespace longhaul::optimizer {

struct Agd {
  double beta1 = 0.9;
  double beta2 = 0.999;
  double delta = 1e-5;  // the authors use 1e-14 for transformers
};

// Requires spans of one size and step.number >= 1; `first` and `second` are m and b, 0 at first.
void Update(const Agd& agd, const Step& step, std::span<float> weights,
            std::span<const float> gradients, std::span<float> first, std::span<float> second);

}  // namespace longhaul::optimizer
