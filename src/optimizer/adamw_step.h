// The arithmetic of AdamW for one element, for the sources that keep its moments in floats
// (adamw.cc) and in codes of 8 bits (adamw8.cc).
#pragma once

#include <cmath>

#include "optimizer/step.h"

namespace longhaul::optimizer {

struct AdamWConstants {
  float beta1, beta2, rest1, rest2, keep, rate, correction, epsilon, scale;
};

// The constants are computed in double and used in float.
inline AdamWConstants ConstantsOf(double beta1, double beta2, double epsilon, const Step& step) {
  const auto t = static_cast<double>(step.number);
  return {.beta1 = static_cast<float>(beta1),
          .beta2 = static_cast<float>(beta2),
          .rest1 = static_cast<float>(1 - beta1),
          .rest2 = static_cast<float>(1 - beta2),
          .keep = static_cast<float>(1 - step.rate * step.decay),
          .rate = static_cast<float>(step.rate / (1 - std::pow(beta1, t))),
          .correction = static_cast<float>(1 / (1 - std::pow(beta2, t))),
          .epsilon = static_cast<float>(epsilon),
          .scale = static_cast<float>(step.scale)};
}

[[gnu::always_inline]] inline void StepAdamW(const AdamWConstants& k, float g, float& w, float& m,
                                             float& v) {
  const float gradient = g * k.scale;
  m = k.beta1 * m + k.rest1 * gradient;
  v = k.beta2 * v + k.rest2 * (gradient * gradient);
  w = w * k.keep - k.rate * m / (std::sqrt(v * k.correction) + k.epsilon);
}

}  // namespace longhaul::optimizer
