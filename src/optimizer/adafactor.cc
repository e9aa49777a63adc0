#include "optimizer/adafactor.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "base/check.h"

namespace longhaul::optimizer {
namespace {

double RootMeanSquare(std::span<const float> values) {
  double sum = 0;
  for (const float value : values) sum += static_cast<double>(value) * value;
  return std::sqrt(sum / static_cast<double>(values.size()));
}

// Moves the running means of a matrix' squares on, over rows and over columns.
void Average(const Adafactor& adafactor, double beta, double scale, size_t columns,
             std::span<const float> gradients, std::span<float> of_rows,
             std::span<float> of_columns) {
  std::vector<double> sums(columns);
  for (size_t row = 0; row < of_rows.size(); ++row) {
    double sum = 0;
    for (size_t column = 0; column < columns; ++column) {
      const double gradient = scale * static_cast<double>(gradients[row * columns + column]);
      const double square = gradient * gradient + adafactor.epsilon;
      sum += square;
      sums[column] += square;
    }
    of_rows[row] = static_cast<float>(beta * static_cast<double>(of_rows[row]) +
                                      (1 - beta) * sum / static_cast<double>(columns));
  }
  const auto rows = static_cast<double>(of_rows.size());
  for (size_t column = 0; column < columns; ++column) {
    of_columns[column] = static_cast<float>(beta * static_cast<double>(of_columns[column]) +
                                            (1 - beta) * sums[column] / rows);
  }
}

// g' divided by the root of its second moment.
std::vector<float> DirectionOfMatrix(double scale, size_t columns, std::span<const float> gradients,
                                     std::span<const float> of_rows,
                                     std::span<const float> of_columns) {
  double mean = 0;
  for (const float row : of_rows) mean += static_cast<double>(row);
  mean /= static_cast<double>(of_rows.size());
  std::vector<double> roots(columns);
  for (size_t i = 0; i < columns; ++i) roots[i] = 1 / std::sqrt(static_cast<double>(of_columns[i]));
  std::vector<float> direction(gradients.size());
  for (size_t row = 0; row < of_rows.size(); ++row) {
    const double factor = scale * std::sqrt(mean / static_cast<double>(of_rows[row]));
    for (size_t i = 0; i < columns; ++i) {
      direction[row * columns + i] =
          static_cast<float>(factor * roots[i] * static_cast<double>(gradients[row * columns + i]));
    }
  }
  return direction;
}

std::vector<float> DirectionOfVector(const Adafactor& adafactor, double beta, double scale,
                                     std::span<const float> gradients, std::span<float> second) {
  std::vector<float> direction(gradients.size());
  for (size_t i = 0; i < gradients.size(); ++i) {
    const double gradient = scale * static_cast<double>(gradients[i]);
    const double moment = beta * static_cast<double>(second[i]) +
                          (1 - beta) * (gradient * gradient + adafactor.epsilon);
    second[i] = static_cast<float>(moment);
    direction[i] = static_cast<float>(gradient / std::sqrt(moment));
  }
  return direction;
}

}  // namespace

void Update(const Adafactor& adafactor, const Step& step, size_t rows, size_t columns,
            std::span<float> weights, std::span<const float> gradients, std::span<float> state) {
  const size_t count = rows * columns;
  CHECK(step.number >= 1 && count > 0);
  CHECK(weights.size() == count && gradients.size() == count);
  CHECK(state.size() == StateOf(adafactor, rows, columns));
  const double beta = 1 - std::pow(static_cast<double>(step.number), -0.8);
  std::vector<float> direction;
  if (rows == 1) {
    direction = DirectionOfVector(adafactor, beta, step.scale, gradients, state);
  } else {
    const auto of_rows = state.first(rows);
    const auto of_columns = state.subspan(rows);
    Average(adafactor, beta, step.scale, columns, gradients, of_rows, of_columns);
    direction = DirectionOfMatrix(step.scale, columns, gradients, of_rows, of_columns);
  }
  const double clip = std::max(1.0, RootMeanSquare(direction) / adafactor.threshold);
  const auto factor =
      static_cast<float>(step.rate * std::max(adafactor.least, RootMeanSquare(weights)) / clip);
  const auto keep = static_cast<float>(1 - step.rate * step.decay);
  for (size_t i = 0; i < count; ++i) weights[i] = weights[i] * keep - factor * direction[i];
}

}  // namespace longhaul::optimizer
