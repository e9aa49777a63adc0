#include "optimizer/lion.h"

#include <cmath>
#include <cstddef>

#include "base/check.h"
#include "optimizer/vectorised.h"

namespace longhaul::optimizer {
namespace {

struct LionConstants {
  float beta1, rest1, beta2, rest2, keep, rate, scale;
};

[[gnu::always_inline]] inline void StepLion(const LionConstants& k, float g, float& w, float& m) {
  const float gradient = g * k.scale;
  const float direction = k.beta1 * m + k.rest1 * gradient;
  const float sign = direction == 0 ? 0.0F : std::copysign(1.0F, direction);
  w = w * k.keep - k.rate * sign;
  m = k.beta2 * m + k.rest2 * gradient;
}

LONGHAUL_VECTORISED
void RunLion(const LionConstants& k, size_t count, float* __restrict w, const float* __restrict g,
             float* __restrict m) {
  size_t at = 0;
  for (; at + kBlock <= count; at += kBlock) {
    FetchAhead(at, w, g, m);
    for (size_t i = at; i < at + kBlock; ++i) StepLion(k, g[i], w[i], m[i]);
  }
  for (; at < count; ++at) StepLion(k, g[at], w[at], m[at]);
}

}  // namespace

void Update(const Lion& lion, const Step& step, std::span<float> weights,
            std::span<const float> gradients, std::span<float> momentum) {
  const size_t count = weights.size();
  CHECK(gradients.size() == count && momentum.size() == count);
  const LionConstants constants = {.beta1 = static_cast<float>(lion.beta1),
                                   .rest1 = static_cast<float>(1 - lion.beta1),
                                   .beta2 = static_cast<float>(lion.beta2),
                                   .rest2 = static_cast<float>(1 - lion.beta2),
                                   .keep = static_cast<float>(1 - step.rate * step.decay),
                                   .rate = static_cast<float>(step.rate),
                                   .scale = static_cast<float>(step.scale)};
  RunLion(constants, count, weights.data(), gradients.data(), momentum.data());
}

}  // namespace longhaul::optimizer
