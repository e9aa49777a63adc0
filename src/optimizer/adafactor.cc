#include "optimizer/adafactor.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "base/check.h"
#include "optimizer/fixed_sum.h"
#include "optimizer/vectorised.h"

namespace longhaul::optimizer {
namespace {

// The scale of a step's gradients and what is added to their squares.
struct Squares {
  double scale, epsilon;

  [[gnu::always_inline]] double of(float g) const {
    const double gradient = scale * static_cast<double>(g);
    return gradient * gradient + epsilon;
  }
};

// Adds the squares of a row to the sums of the columns, and returns the sum of the row.
LONGHAUL_VECTORISED
double AddRow(const Squares& squares, size_t columns, const float* __restrict g,
              double* __restrict sums) {
  return FixedSum(
      columns, [&](size_t i) __attribute__((always_inline)) {
        const double square = squares.of(g[i]);
        sums[i] += square;
        return square;
      });
}

// The sums of squares of some weights and of their u.
struct Sizes {
  double weights = 0, directions = 0;
};

[[gnu::always_inline]] inline double Square(float value) {
  return static_cast<double>(value) * static_cast<double>(value);
}

// Of one row, where u is g' divided by a root of the row and a root of each column.
LONGHAUL_VECTORISED
Sizes SizesOfRow(float of_row, size_t columns, const float* __restrict w, const float* __restrict g,
                 const float* __restrict of_columns) {
  return {.weights = FixedSum(
              columns, [&](size_t i) __attribute__((always_inline)) { return Square(w[i]); }),
          .directions = FixedSum(
              columns, [&](size_t i) __attribute__((always_inline)) {
                return Square(of_row * of_columns[i] * g[i]);
              })};
}

LONGHAUL_VECTORISED
void StepRow(float keep, float factor, float of_row, size_t columns, float* __restrict w,
             const float* __restrict g, const float* __restrict of_columns) {
  for (size_t i = 0; i < columns; ++i) {
    w[i] = w[i] * keep - factor * (of_row * of_columns[i] * g[i]);
  }
}

// v of a vector, and the reciprocal of its root.
LONGHAUL_VECTORISED
void RunVector(const Squares& squares, double beta, size_t count, const float* __restrict g,
               float* __restrict v, float* __restrict reciprocals) {
  const double rest = 1 - beta;
  for (size_t i = 0; i < count; ++i) {
    const double moment = beta * static_cast<double>(v[i]) + rest * squares.of(g[i]);
    v[i] = static_cast<float>(moment);
    reciprocals[i] = static_cast<float>(1 / std::sqrt(moment));
  }
}

// u_ij is of_rows[i] * of_columns[j] * g_ij.
struct Factors {
  std::vector<float> of_rows, of_columns;
};

// Moves the running means of a matrix' squares on, over rows and over columns.
Factors MoveMeans(const Squares& squares, double beta, size_t columns,
                  std::span<const float> gradients, std::span<float> of_rows,
                  std::span<float> of_columns) {
  const size_t rows = of_rows.size();
  std::vector<double> sums(columns);
  double mean = 0;
  for (size_t i = 0; i < rows; ++i) {
    const double sum = AddRow(squares, columns, gradients.data() + i * columns, sums.data());
    of_rows[i] = static_cast<float>(beta * static_cast<double>(of_rows[i]) +
                                    (1 - beta) * sum / static_cast<double>(columns));
    mean += static_cast<double>(of_rows[i]) / static_cast<double>(rows);
  }
  Factors factors = {std::vector<float>(rows), std::vector<float>(columns)};
  for (size_t j = 0; j < columns; ++j) {
    of_columns[j] = static_cast<float>(beta * static_cast<double>(of_columns[j]) +
                                       (1 - beta) * sums[j] / static_cast<double>(rows));
    factors.of_columns[j] = static_cast<float>(1 / std::sqrt(static_cast<double>(of_columns[j])));
  }
  for (size_t i = 0; i < rows; ++i) {
    factors.of_rows[i] =
        static_cast<float>(squares.scale * std::sqrt(mean / static_cast<double>(of_rows[i])));
  }
  return factors;
}

}  // namespace

void Update(const Adafactor& adafactor, const Step& step, size_t rows, size_t columns,
            std::span<float> weights, std::span<const float> gradients, std::span<float> state) {
  const size_t count = rows * columns;
  CHECK(step.number >= 1 && count > 0);
  CHECK(weights.size() == count && gradients.size() == count);
  CHECK(state.size() == StateOf(adafactor, rows, columns));
  const double beta = 1 - std::pow(static_cast<double>(step.number), -0.8);
  const Squares squares = {step.scale, adafactor.epsilon};
  Factors factors;
  if (rows == 1) {
    factors = {{static_cast<float>(step.scale)}, std::vector<float>(columns)};
    RunVector(squares, beta, columns, gradients.data(), state.data(), factors.of_columns.data());
  } else {
    factors = MoveMeans(squares, beta, columns, gradients, state.first(rows), state.subspan(rows));
  }
  Sizes sizes;
  for (size_t row = 0; row < rows; ++row) {
    const size_t at = row * columns;
    const Sizes here = SizesOfRow(factors.of_rows[row], columns, weights.data() + at,
                                  gradients.data() + at, factors.of_columns.data());
    sizes.weights += here.weights;
    sizes.directions += here.directions;
  }
  const auto root_mean = [&](double sum) { return std::sqrt(sum / static_cast<double>(count)); };
  const double clip = std::max(1.0, root_mean(sizes.directions) / adafactor.threshold);
  const auto factor =
      static_cast<float>(step.rate * std::max(adafactor.least, root_mean(sizes.weights)) / clip);
  const auto keep = static_cast<float>(1 - step.rate * step.decay);
  for (size_t row = 0; row < rows; ++row) {
    const size_t at = row * columns;
    StepRow(keep, factor, factors.of_rows[row], columns, weights.data() + at, gradients.data() + at,
            factors.of_columns.data());
  }
}

}  // namespace longhaul::optimizer
