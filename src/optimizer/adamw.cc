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

[[gnu::always_inline]] inline void StepAdamW(const AdamWConstants& k, float g, float& w, float& m,
                                             float& v) {
  const float gradient = g * k.scale;
  m = k.beta1 * m + k.rest1 * gradient;
  v = k.beta2 * v + k.rest2 * (gradient * gradient);
  w = w * k.keep - k.rate * m / (std::sqrt(v * k.correction) + k.epsilon);
}

LONGHAUL_VECTORISED
void RunAdamW(const AdamWConstants& k, size_t count, float* __restrict w, const float* __restrict g,
              float* __restrict m, float* __restrict v) {
  size_t at = 0;
  for (; at + kBlock <= count; at += kBlock) {
    FetchAhead(at, w, g, m, v);
    for (size_t i = at; i < at + kBlock; ++i) StepAdamW(k, g[i], w[i], m[i], v[i]);
  }
  for (; at < count; ++at) StepAdamW(k, g[at], w[at], m[at], v[at]);
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
