#include "optimizer/adamw.h"

#include <cmath>
#include <cstddef>

#include "base/check.h"
#include "optimizer/vectorised.h"

namespace longhaul::optimizer {
namespace {

struct AdamWConstants {
  float beta1, beta2, rest1, rest2, keep, rate, correction, epsilon, scale;
};

LONGHAUL_VECTORISED
void RunAdamW(const AdamWConstants& k, size_t count, float* __restrict w, const float* __restrict g,
              float* __restrict m, float* __restrict v) {
  for (size_t i = 0; i < count; ++i) {
    const float gradient = g[i] * k.scale;
    m[i] = k.beta1 * m[i] + k.rest1 * gradient;
    v[i] = k.beta2 * v[i] + k.rest2 * (gradient * gradient);
    w[i] = w[i] * k.keep - k.rate * m[i] / (std::sqrt(v[i] * k.correction) + k.epsilon);
  }
}

}  // namespace

// The constants are computed in double and used in float.
void Update(const AdamW& adamw, const Step& step, std::span<float> weights,
            std::span<const float> gradients, std::span<float> first, std::span<float> second) {
  const size_t count = weights.size();
  CHECK(step.number >= 1);
  CHECK(gradients.size() == count && first.size() == count && second.size() == count);
  const auto t = static_cast<double>(step.number);
  const AdamWConstants constants = {
      .beta1 = static_cast<float>(adamw.beta1),
      .beta2 = static_cast<float>(adamw.beta2),
      .rest1 = static_cast<float>(1 - adamw.beta1),
      .rest2 = static_cast<float>(1 - adamw.beta2),
      .keep = static_cast<float>(1 - step.rate * step.decay),
      .rate = static_cast<float>(step.rate / (1 - std::pow(adamw.beta1, t))),
      .correction = static_cast<float>(1 / (1 - std::pow(adamw.beta2, t))),
      .epsilon = static_cast<float>(adamw.epsilon),
      .scale = static_cast<float>(step.scale)};
  RunAdamW(constants, count, weights.data(), gradients.data(), first.data(), second.data());
}

}  // namespace longhaul::optimizer
