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

LONGHAUL_VECTORISED
void RunLion(const LionConstants& k, size_t count, float* __restrict w, const float* __restrict g,
             float* __restrict m) {
  for (size_t i = 0; i < count; ++i) {
    const float gradient = g[i] * k.scale;
    const float direction = k.beta1 * m[i] + k.rest1 * gradient;
    const float sign = direction == 0 ? 0.0F : std::copysign(1.0F, direction);
    w[i] = w[i] * k.keep - k.rate * sign;
    m[i] = k.beta2 * m[i] + k.rest2 * gradient;
  }
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
