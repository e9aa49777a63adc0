#include "trainer/model/optimizer.h"

#include <array>
#include <cstddef>

#include "optimizer/adamw.h"
#include "trainer/model/schedule.h"

namespace longhaul::trainer {

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
  const optimizer::AdamW adamw = {.beta1 = train_.beta1, .beta2 = train_.beta2};
  optimizer::Step update;
  update.number = step;
  update.rate = LearningRate(train_, step);
  update.scale = train_.clip > 0 && norm > train_.clip ? train_.clip / (norm + 1e-6) : 1;
  for (const Range& range : ranges_) {
    const size_t size = range.end - range.begin;
    update.decay = range.decayed ? train_.weight_decay : 0;
    optimizer::Update(
        adamw, update, weights().subspan(range.begin, size), gradients.subspan(range.begin, size),
        first_moments().subspan(range.begin, size), second_moments().subspan(range.begin, size));
  }
}

}  // namespace longhaul::trainer
