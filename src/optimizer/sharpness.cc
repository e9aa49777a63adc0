#include "optimizer/sharpness.h"

#include <cstddef>

#include "base/check.h"
#include "optimizer/vectorised.h"

namespace longhaul::optimizer {
namespace {

// out = first * a + second * b
LONGHAUL_VECTORISED
void Combine(size_t count, float first, const float* a, float second, const float* b, float* out) {
#pragma GCC ivdep
  for (size_t i = 0; i < count; ++i) out[i] = first * a[i] + second * b[i];
}

// out -= factor * (h - g)
LONGHAUL_VECTORISED
void Subtract(size_t count, float factor, const float* __restrict g, const float* __restrict h,
              float* __restrict out) {
  for (size_t i = 0; i < count; ++i) out[i] -= factor * (h[i] - g[i]);
}

}  // namespace

void Perturb(const Sharpness& sharpness, double norm, std::span<const float> weights,
             std::span<const float> gradients, std::span<float> moved) {
  CHECK(gradients.size() == weights.size() && moved.size() == weights.size());
  const auto factor = static_cast<float>(sharpness.radius / (norm + 1e-12));
  Combine(weights.size(), 1.0F, weights.data(), factor, gradients.data(), moved.data());
}

void Mix(const Sharpness& sharpness, std::span<float> gradients,
         std::span<const float> moved_gradients) {
  CHECK(sharpness.gamma >= 0 && sharpness.gamma < 1);
  CHECK(moved_gradients.size() == gradients.size());
  const double weight = sharpness.weight();
  Combine(gradients.size(), static_cast<float>(1 - weight), gradients.data(),
          static_cast<float>(weight), moved_gradients.data(), gradients.data());
}

void Correct(const Sharpness& sharpness, double rate, std::span<float> weights,
             std::span<const float> gradients, std::span<const float> moved_gradients) {
  CHECK(sharpness.gamma >= 0 && sharpness.gamma < 1);
  CHECK(gradients.size() == weights.size() && moved_gradients.size() == weights.size());
  Subtract(weights.size(), static_cast<float>(rate * sharpness.weight()), gradients.data(),
           moved_gradients.data(), weights.data());
}

}  // namespace longhaul::optimizer
