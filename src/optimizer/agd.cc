#include "optimizer/agd.h"

#include <algorithm>
#include <cmath>
#include <cstddef>

#include "base/check.h"
#include "optimizer/vectorised.h"

namespace longhaul::optimizer {
namespace {

struct AgdConstants {
  float beta1, rest1, beta2, rest2, now, before, floor, rate, keep, scale;
};

[[gnu::always_inline]] inline void StepAgd(const AgdConstants& k, float g, float& w, float& m,
                                           float& b) {
  const float momentum = k.beta1 * m + k.rest1 * (g * k.scale);
  const float difference = momentum * k.now - m * k.before;
  b = k.beta2 * b + k.rest2 * (difference * difference);
  m = momentum;
  w = w * k.keep - k.rate * momentum / std::max(std::sqrt(b), k.floor);
}

LONGHAUL_VECTORISED
void RunAgd(const AgdConstants& k, size_t count, float* __restrict w, const float* __restrict g,
            float* __restrict m, float* __restrict b) {
  size_t at = 0;
  for (; at + kBlock <= count; at += kBlock) {
    FetchAhead(at, w, g, m, b);
    for (size_t i = at; i < at + kBlock; ++i) StepAgd(k, g[i], w[i], m[i], b[i]);
  }
  for (; at < count; ++at) StepAgd(k, g[at], w[at], m[at], b[at]);
}

}  // namespace

void Update(const Agd& agd, const Step& step, std::span<float> weights,
            std::span<const float> gradients, std::span<float> first, std::span<float> second) {
  const size_t count = weights.size();
  CHECK(step.number >= 1);
  CHECK(gradients.size() == count && first.size() == count && second.size() == count);
  const auto t = static_cast<double>(step.number);
  const double correction1 = 1 - std::pow(agd.beta1, t);
  const double correction2 = std::sqrt(1 - std::pow(agd.beta2, t));
  // At the first step m is 0, so any finite number would do.
  const double before = step.number == 1 ? 0 : 1 / (1 - std::pow(agd.beta1, t - 1));
  const AgdConstants constants = {.beta1 = static_cast<float>(agd.beta1),
                                  .rest1 = static_cast<float>(1 - agd.beta1),
                                  .beta2 = static_cast<float>(agd.beta2),
                                  .rest2 = static_cast<float>(1 - agd.beta2),
                                  .now = static_cast<float>(1 / correction1),
                                  .before = static_cast<float>(before),
                                  .floor = static_cast<float>(agd.delta * correction2),
                                  .rate = static_cast<float>(step.rate * correction2 / correction1),
                                  .keep = static_cast<float>(1 - step.rate * step.decay),
                                  .scale = static_cast<float>(step.scale)};
  RunAgd(constants, count, weights.data(), gradients.data(), first.data(), second.data());
}

}  // namespace longhaul::optimizer
