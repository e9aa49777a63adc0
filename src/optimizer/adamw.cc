#include "optimizer/adamw.h"

#include <cstddef>

#include "base/check.h"
#include "optimizer/adamw_step.h"
#include "optimizer/vectorised.h"

namespace longhaul::optimizer {
namespace {

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

void Update(const AdamW& adamw, const Step& step, std::span<float> weights,
            std::span<const float> gradients, std::span<float> first, std::span<float> second) {
  const size_t count = weights.size();
  CHECK(step.number >= 1);
  CHECK(gradients.size() == count && first.size() == count && second.size() == count);
  RunAdamW(ConstantsOf(adamw.beta1, adamw.beta2, adamw.epsilon, step), count, weights.data(),
           gradients.data(), first.data(), second.data());
}

}  // namespace longhaul::optimizer
