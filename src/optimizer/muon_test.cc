// The iterations of Muon: what they do to singular values, and the shapes that it is given.
#include "optimizer/muon.h"

#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "base/random.h"

namespace longhaul::optimizer::muon_test {
namespace {

void PlainProduct(size_t m, size_t n, size_t k, const float* a, const float* b, bool transpose_b,
                  float* out) {
  for (size_t i = 0; i < m; ++i) {
    for (size_t j = 0; j < n; ++j) {
      double sum = 0;
      for (size_t l = 0; l < k; ++l) {
        sum += static_cast<double>(a[i * k + l]) * (transpose_b ? b[j * k + l] : b[l * n + j]);
      }
      out[i * n + j] = static_cast<float>(sum);
    }
  }
}

// Orthonormal rows: a product of reflections, applied to the first rows of the unit matrix.
std::vector<double> OrthonormalRows(size_t rows, size_t columns, uint64_t seed) {
  Random random(seed);
  std::vector<double> matrix(rows * columns);
  for (size_t i = 0; i < rows; ++i) matrix[i * columns + i] = 1;
  for (size_t reflection = 0; reflection < columns; ++reflection) {
    std::vector<double> v(columns);
    double squares = 0;
    for (double& value : v) {
      value = random.Uniform() - 0.5;
      squares += value * value;
    }
    for (size_t i = 0; i < rows; ++i) {
      double dot = 0;
      for (size_t j = 0; j < columns; ++j) dot += matrix[i * columns + j] * v[j];
      for (size_t j = 0; j < columns; ++j) matrix[i * columns + j] -= 2 * dot / squares * v[j];
    }
  }
  return matrix;
}

// left^T diag(values) right: a matrix of these singular values.
std::vector<float> WithSingularValues(const std::vector<double>& values, size_t columns) {
  const size_t rows = values.size();
  const std::vector<double> left = OrthonormalRows(rows, rows, 1);
  const std::vector<double> right = OrthonormalRows(rows, columns, 2);
  std::vector<float> matrix(rows * columns);
  for (size_t i = 0; i < rows; ++i) {
    for (size_t j = 0; j < columns; ++j) {
      double sum = 0;
      for (size_t l = 0; l < rows; ++l) {
        sum += left[l * rows + i] * values[l] * right[l * columns + j];
      }
      matrix[i * columns + j] = static_cast<float>(sum);
    }
  }
  return matrix;
}

// As each iteration is an odd polynomial, it acts on each singular value alone.
double Iterated(double value) {
  for (int i = 0; i < 5; ++i) {
    const double square = value * value;
    value *= 3.4445 + square * (-4.7750 + 2.0315 * square);
  }
  return value;
}

TEST(Muon, TheIterationsAreAPolynomialOfEachSingularValue) {
  const std::vector<double> values = {0.6, 0.3, 0.1, 0.05, 0.02};
  std::vector<double> after;
  for (const double value : values) {
    after.push_back(Iterated(value));
    EXPECT_GT(after.back(), 0.5);
    EXPECT_LT(after.back(), 1.5);
  }
  std::vector<float> matrix = WithSingularValues(values, 9);
  Orthogonalise(5, 9, matrix, PlainProduct);
  const std::vector<float> expected = WithSingularValues(after, 9);
  for (size_t i = 0; i < matrix.size(); ++i) EXPECT_NEAR(matrix[i], expected[i], 1e-4) << i;
}

TEST(Muon, ATallMatrixIsItsTransposeTurned) {
  const size_t rows = 4, columns = 7;
  std::vector<float> gradients = WithSingularValues({1, 0.7, 0.4, 0.2}, columns);
  std::vector<float> turned(gradients.size());
  for (size_t i = 0; i < rows; ++i) {
    for (size_t j = 0; j < columns; ++j) turned[j * rows + i] = gradients[i * columns + j];
  }
  Muon muon;
  muon.scaling = Muon::Scaling::kLikeAdamW;
  Step step;
  step.rate = 0.1;
  step.decay = 0.5;
  std::vector<float> wide(gradients.size(), 1), tall = wide;
  std::vector<float> momentum(gradients.size()), turned_momentum = momentum;
  Update(muon, step, rows, columns, wide, gradients, momentum, PlainProduct);
  Update(muon, step, columns, rows, tall, turned, turned_momentum, PlainProduct);
  for (size_t i = 0; i < rows; ++i) {
    for (size_t j = 0; j < columns; ++j) {
      EXPECT_FLOAT_EQ(wide[i * columns + j], tall[j * rows + i]) << i << " " << j;
    }
  }
}

TEST(Muon, TheStepDependsOnTheDirectionOfTheGradientAndNotOnItsLength) {
  const size_t rows = 4, columns = 4;
  const std::vector<float> gradients = WithSingularValues({1, 0.7, 0.4, 0.2}, columns);
  std::vector<float> longer = gradients;
  for (float& value : longer) value *= 1024;
  Step step;
  step.rate = 0.1;
  std::vector<float> one(gradients.size(), 1), other = one;
  std::vector<float> momentum(gradients.size()), other_momentum = momentum;
  Update(Muon{}, step, rows, columns, one, gradients, momentum, PlainProduct);
  Update(Muon{}, step, rows, columns, other, longer, other_momentum, PlainProduct);
  for (size_t i = 0; i < one.size(); ++i) EXPECT_NEAR(one[i], other[i], 1e-5) << i;
}

TEST(Muon, AGradientOfZeroOnlyDecays) {
  Step step;
  step.rate = 0.1;
  step.decay = 0.5;
  std::vector<float> weights(6, 2), momentum(6);
  Update(Muon{}, step, 2, 3, weights, std::vector<float>(6), momentum, PlainProduct);
  for (const float weight : weights) EXPECT_FLOAT_EQ(weight, 2 * 0.95F);
}

}  // namespace
}  // namespace longhaul::optimizer::muon_test
