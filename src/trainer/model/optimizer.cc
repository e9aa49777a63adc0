#include "trainer/model/optimizer.h"

#include <array>
#include <cmath>
#include <cstddef>

#include "base/check.h"
#include "trainer/model/schedule.h"

namespace longhaul::trainer {

// AdamW: decay is applied to the weight and not to the gradient. Scalars are computed in double and
// used in float, so that the loop is vectorised. ivdep states that the four arrays do not overlap.
void UpdateAdamW(const AdamWStep& step, std::span<float> weights, std::span<const float> gradients,
                 std::span<float> first_moments, std::span<float> second_moments) {
  const size_t count = weights.size();
  CHECK(step.step >= 1);
  CHECK(gradients.size() == count && first_moments.size() == count &&
        second_moments.size() == count);
  const double t = static_cast<double>(step.step);
  const auto beta1 = static_cast<float>(step.beta1);
  const auto beta2 = static_cast<float>(step.beta2);
  const auto rest1 = static_cast<float>(1 - step.beta1);
  const auto rest2 = static_cast<float>(1 - step.beta2);
  const auto keep = static_cast<float>(1 - step.rate * step.decay);
  const auto rate = static_cast<float>(step.rate / (1 - std::pow(step.beta1, t)));
  const auto correction = static_cast<float>(1 / (1 - std::pow(step.beta2, t)));
  const auto epsilon = static_cast<float>(step.epsilon);
  const auto scale = static_cast<float>(step.scale);
  float* const w = weights.data();
  const float* const g = gradients.data();
  float* const m = first_moments.data();
  float* const v = second_moments.data();
#pragma GCC ivdep
  for (size_t i = 0; i < count; ++i) {
    const float gradient = g[i] * scale;
    m[i] = beta1 * m[i] + rest1 * gradient;
    v[i] = beta2 * v[i] + rest2 * (gradient * gradient);
    w[i] = w[i] * keep - rate * m[i] / (std::sqrt(v[i] * correction) + epsilon);
  }
}

// Eight sums in a fixed order: the compiler can vectorise them, and the result is the same on every
// run.
double SquaredNorm(std::span<const float> values) {
  std::array<double, 8> lanes{};
  size_t i = 0;
  for (; i + lanes.size() <= values.size(); i += lanes.size()) {
    for (size_t lane = 0; lane < lanes.size(); ++lane) {
      const double value = values[i + lane];
      lanes[lane] += value * value;
    }
  }
  double sum = 0;
  for (; i < values.size(); ++i) sum += static_cast<double>(values[i]) * values[i];
  for (const double lane : lanes) sum += lane;
  return sum;
}

// Neighbouring parameters with the same decay form one range, so the update runs over long
// stretches. The gaps between parameters are zero and stay so.
Optimizer::Optimizer(const ParameterTable& table, const spec::TrainSpec& train)
    : train_(train),
      weights_(table.floats()),
      first_moments_(table.floats()),
      second_moments_(table.floats()) {
  for (const Parameter& parameter : table.parameters()) {
    if (!ranges_.empty()) ranges_.back().end = parameter.offset;
    if (ranges_.empty() || ranges_.back().decayed != parameter.decayed) {
      ranges_.push_back({parameter.offset, 0, parameter.decayed});
    }
  }
  ranges_.back().end = table.floats();
}

void Optimizer::Step(uint64_t step, std::span<const float> gradients, double norm) {
  AdamWStep update;
  update.step = step;
  update.rate = LearningRate(train_, step);
  update.beta1 = train_.beta1;
  update.beta2 = train_.beta2;
  update.scale = train_.clip > 0 && norm > train_.clip ? train_.clip / (norm + 1e-6) : 1;
  for (const Range& range : ranges_) {
    const size_t size = range.end - range.begin;
    update.decay = range.decayed ? train_.weight_decay : 0;
    UpdateAdamW(update, weights().subspan(range.begin, size), gradients.subspan(range.begin, size),
                first_moments().subspan(range.begin, size),
                second_moments().subspan(range.begin, size));
  }
}

}  // namespace longhaul::trainer
