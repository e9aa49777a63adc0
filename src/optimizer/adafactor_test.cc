#include "optimizer/adafactor.h"

#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "base/random.h"

namespace longhaul::optimizer::adafactor_test {
namespace {

// More columns than a sum has lanes, and no multiple of them.
constexpr size_t kRows = 5, kColumns = 39, kCount = kRows * kColumns;

// The formulas of the header in double, for one matrix.
struct Oracle {
  std::vector<double> weights, rows = std::vector<double>(kRows),
                               columns = std::vector<double>(kColumns);

  void Update(const Step& step, const std::vector<float>& gradients) {
    const double beta = 1 - std::pow(static_cast<double>(step.number), -0.8);
    std::vector<double> row_means(kRows), column_means(kColumns);
    for (size_t i = 0; i < kCount; ++i) {
      const double g = step.scale * gradients[i];
      row_means[i / kColumns] += (g * g + 1e-30) / kColumns;
      column_means[i % kColumns] += (g * g + 1e-30) / kRows;
    }
    double mean = 0;
    for (size_t i = 0; i < kRows; ++i) {
      rows[i] = beta * rows[i] + (1 - beta) * row_means[i];
      mean += rows[i] / kRows;
    }
    for (size_t i = 0; i < kColumns; ++i) {
      columns[i] = beta * columns[i] + (1 - beta) * column_means[i];
    }
    std::vector<double> u(kCount);
    double squares = 0, weight_squares = 0;
    for (size_t i = 0; i < kCount; ++i) {
      u[i] =
          step.scale * gradients[i] / std::sqrt(rows[i / kColumns] * columns[i % kColumns] / mean);
      squares += u[i] * u[i] / kCount;
      weight_squares += weights[i] * weights[i] / kCount;
    }
    const double factor =
        step.rate * std::max(1e-3, std::sqrt(weight_squares)) / std::max(1.0, std::sqrt(squares));
    for (size_t i = 0; i < kCount; ++i) {
      weights[i] = weights[i] * (1 - step.rate * step.decay) - factor * u[i];
    }
  }
};

TEST(Adafactor, AgreesWithTheFormula) {
  Random random(3);
  std::vector<float> weights(kCount), state(StateOf(Adafactor{}, kRows, kColumns));
  for (float& weight : weights) weight = static_cast<float>(random.Uniform() - 0.5);
  Oracle oracle{std::vector<double>(weights.begin(), weights.end())};
  Step step;
  step.rate = 0.02;
  step.decay = 0.1;
  step.scale = 0.5;
  for (step.number = 1; step.number <= 30; ++step.number) {
    std::vector<float> gradients(kCount);
    for (float& gradient : gradients) gradient = static_cast<float>(random.Uniform() - 0.5);
    Update(Adafactor{}, step, kRows, kColumns, weights, gradients, state);
    oracle.Update(step, gradients);
  }
  for (size_t i = 0; i < kCount; ++i) EXPECT_NEAR(weights[i], oracle.weights[i], 1e-5) << i;
}

// Squares of rank one are what rows and columns can express: then the first step is a sign.
TEST(Adafactor, TheFirstStepOfSquaresOfRankOneIsASign) {
  std::vector<float> weights(kCount, 1), gradients(kCount);
  for (size_t i = 0; i < kCount; ++i) {
    const size_t row = i / kColumns, column = i % kColumns;
    gradients[i] = (i % 2 == 0 ? 1.0F : -1.0F) * static_cast<float>(1 + row) *
                   (0.5F + static_cast<float>(column));
  }
  std::vector<float> state(StateOf(Adafactor{}, kRows, kColumns));
  Step step;
  step.rate = 0.01;
  Update(Adafactor{}, step, kRows, kColumns, weights, gradients, state);
  for (size_t i = 0; i < kCount; ++i) {
    EXPECT_NEAR(weights[i], i % 2 == 0 ? 0.99 : 1.01, 1e-5) << i;
  }
}

TEST(Adafactor, AVectorKeepsItsWholeSecondMoment) {
  std::vector<float> weights = {1, 1, 1};
  std::vector<float> state(StateOf(Adafactor{}, 1, 3));
  ASSERT_EQ(state.size(), 3u);
  Step step;
  step.rate = 0.01;
  Update(Adafactor{}, step, 1, 3, weights, std::vector<float>{0.1F, -3, 0}, state);
  EXPECT_NEAR(weights[0], 0.99, 1e-6);
  EXPECT_NEAR(weights[1], 1.01, 1e-6);
  EXPECT_FLOAT_EQ(weights[2], 1);
  EXPECT_NEAR(state[1], 9, 1e-5);
}

}  // namespace
}  // namespace longhaul::optimizer::adafactor_test
