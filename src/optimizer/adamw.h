// AdamW (Loshchilov and Hutter, ICLR 2019), one pass over flat f32 buffers.
//
//   g' = scale * g                          m = beta1 m + (1 - beta1) g'
//   w -= rate * decay * w                   v = beta2 v + (1 - beta2) g'^2
//   w -= rate * (m / (1 - beta1^t)) / (sqrt(v / (1 - beta2^t)) + epsilon)
//
// Elementwise: any division of the buffers gives the same bits.
#pragma once

#include <span>

#include "optimizer/step.h"

namespace longhaul::optimizer {

struct AdamW {
  double beta1 = 0.9;
  double beta2 = 0.95;
  double epsilon = 1e-8;
};

// Requires spans of one size and step.number >= 1; `first` and `second` are m and v, 0 at first.
void Update(const AdamW& adamw, const Step& step, std::span<float> weights,
            std::span<const float> gradients, std::span<float> first, std::span<float> second);

}  // namespace longhaul::optimizer
