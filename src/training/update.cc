#include "training/update.h"

#include <cmath>
#include <cstddef>
#include <span>

#include "base/check.h"
#include "optimizer/adamw.h"
#include "optimizer/step.h"

namespace longhaul::training {
namespace {

template <typename T>
std::span<T> Values(const at::Tensor& tensor) {
  CHECK(tensor.is_contiguous());
  return {tensor.data_ptr<T>(), static_cast<size_t>(tensor.numel())};
}

void AdamW(const Rule& rule, const UpdateStep& step, std::span<double> weights,
           std::span<const double> gradients, std::span<double> first, std::span<double> second) {
  const auto number = static_cast<double>(step.number);
  const double correction1 = 1 - std::pow(rule.beta1, number);
  const double correction2 = 1 - std::pow(rule.beta2, number);
  for (size_t i = 0; i < weights.size(); ++i) {
    const double gradient = step.scale * gradients[i];
    first[i] = rule.beta1 * first[i] + (1 - rule.beta1) * gradient;
    second[i] = rule.beta2 * second[i] + (1 - rule.beta2) * gradient * gradient;
    weights[i] -= step.rate * step.decay * weights[i];
    weights[i] -=
        step.rate * (first[i] / correction1) / (std::sqrt(second[i] / correction2) + rule.epsilon);
  }
}

}  // namespace

void ApplyRule(const Rule& rule, const UpdateStep& step, at::Tensor& weights,
               const at::Tensor& gradients, at::Tensor& first, at::Tensor& second) {
  if (rule.kind == RuleKind::kGradientDescent) {
    weights.mul_(1 - step.rate * step.decay).add_(gradients, -step.rate * step.scale);
    return;
  }
  if (weights.scalar_type() == at::kDouble) {
    AdamW(rule, step, Values<double>(weights), Values<double>(gradients), Values<double>(first),
          Values<double>(second));
    return;
  }
  CHECK(weights.scalar_type() == at::kFloat);
  const optimizer::AdamW adamw = {
      .beta1 = rule.beta1, .beta2 = rule.beta2, .epsilon = rule.epsilon};
  optimizer::Step each;
  each.number = step.number;
  each.rate = step.rate;
  each.decay = step.decay;
  each.scale = step.scale;
  optimizer::Update(adamw, each, Values<float>(weights), Values<float>(gradients),
                    Values<float>(first), Values<float>(second));
}

}  // namespace longhaul::training
