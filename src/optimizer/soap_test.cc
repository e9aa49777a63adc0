// SOAP against its formulas in double, against AdamW where nothing is rotated, and on a quadratic
// whose axes are rotated.
#include "optimizer/soap.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "base/random.h"
#include "optimizer/adamw.h"

namespace longhaul::optimizer::soap_test {
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

std::vector<float> Noise(uint64_t seed, size_t count) {
  Random random(seed);
  std::vector<float> values(count);
  for (float& value : values) value = static_cast<float>(random.Uniform() - 0.5);
  return values;
}

Step StepOf(int number) {
  Step step;
  step.number = static_cast<uint64_t>(number);
  step.rate = 0.01;
  step.decay = 0.1;
  step.scale = 0.5;
  return step;
}

// A square matrix in double, row by row.
using Matrix = std::vector<double>;
constexpr size_t kSize = 5;

// The product of two matrices, each of which may be transposed.
Matrix Times(const Matrix& a, bool turn_a, const Matrix& b, bool turn_b) {
  Matrix out(kSize * kSize);
  for (size_t i = 0; i < kSize; ++i) {
    for (size_t j = 0; j < kSize; ++j) {
      for (size_t l = 0; l < kSize; ++l) {
        out[i * kSize + j] += (turn_a ? a[l * kSize + i] : a[i * kSize + l]) *
                              (turn_b ? b[j * kSize + l] : b[l * kSize + j]);
      }
    }
  }
  return out;
}

// One orthogonal iteration by Gram and Schmidt's method; returns the order of the former rows.
std::vector<size_t> Iterate(const Matrix& preconditioner, Matrix& rotation) {
  const Matrix moved = Times(rotation, false, preconditioner, false);
  const Matrix values = Times(moved, false, rotation, true);
  std::vector<size_t> order = {0, 1, 2, 3, 4};
  std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) {
    return values[a * kSize + a] > values[b * kSize + b];
  });
  for (size_t row = 0; row < kSize; ++row) {
    double* const q = rotation.data() + row * kSize;
    std::copy_n(moved.begin() + static_cast<std::ptrdiff_t>(order[row] * kSize), kSize, q);
    for (int twice = 0; twice < 2; ++twice) {
      for (size_t other = 0; other < row; ++other) {
        const double* const p = rotation.data() + other * kSize;
        double dot = 0;
        for (size_t i = 0; i < kSize; ++i) dot += p[i] * q[i];
        for (size_t i = 0; i < kSize; ++i) q[i] -= dot * p[i];
      }
    }
    double squares = 0;
    for (size_t i = 0; i < kSize; ++i) squares += q[i] * q[i];
    for (size_t i = 0; i < kSize; ++i) q[i] /= std::sqrt(squares);
  }
  return order;
}

// The formulas of the header in double.
struct Oracle {
  explicit Oracle(const std::vector<float>& start) : weights(start.begin(), start.end()) {
    for (size_t i = 0; i < kSize; ++i) p[i * kSize + i] = q[i * kSize + i] = 1;
  }

  void Update(const Soap& soap, const Step& step, const std::vector<float>& gradients) {
    Matrix g(gradients.begin(), gradients.end());
    for (double& value : g) value *= step.scale;
    const int t = static_cast<int>(step.number) - 1;
    if (t > 0) Move(soap, step, t, g);
    const Matrix left = Times(g, false, g, true), right = Times(g, true, g, false);
    for (size_t i = 0; i < l.size(); ++i) {
      l[i] = soap.beta * l[i] + (1 - soap.beta) * left[i];
      r[i] = soap.beta * r[i] + (1 - soap.beta) * right[i];
    }
    if (t % static_cast<int>(soap.every) != 0) return;
    for (int i = 0; i < (t == 0 ? 10 : 1); ++i) {
      const std::vector<size_t> rows = Iterate(l, p), columns = Iterate(r, q);
      const Matrix before = v;
      for (size_t at = 0; at < v.size(); ++at) {
        v[at] = before[rows[at / kSize] * kSize + columns[at % kSize]];
      }
    }
  }

  void Move(const Soap& soap, const Step& step, int t, const Matrix& g) {
    for (size_t i = 0; i < m.size(); ++i) m[i] = soap.beta1 * m[i] + (1 - soap.beta1) * g[i];
    const Matrix rotated = Times(Times(p, false, g, false), false, q, true);
    Matrix u = Times(Times(p, false, m, false), false, q, true);
    for (size_t i = 0; i < u.size(); ++i) {
      v[i] = soap.beta2 * v[i] + (1 - soap.beta2) * rotated[i] * rotated[i];
      u[i] = u[i] / (1 - std::pow(soap.beta1, t)) /
             (std::sqrt(v[i] / (1 - std::pow(soap.beta2, t))) + soap.epsilon);
    }
    u = Times(Times(p, true, u, false), false, q, false);
    for (size_t i = 0; i < u.size(); ++i) {
      weights[i] = weights[i] * (1 - step.rate * step.decay) - step.rate * u[i];
    }
  }

  Matrix weights, m = Matrix(kSize * kSize), v = m, l = m, r = m, p = m, q = m;
};

TEST(Soap, AgreesWithTheFormula) {
  Soap soap;
  soap.every = 3;
  std::vector<float> weights = Noise(1, kSize * kSize);
  std::vector<float> state(StateOf(soap, kSize, kSize));
  Oracle oracle(weights);
  for (int number = 1; number <= 30; ++number) {
    const std::vector<float> gradients = Noise(100 + static_cast<uint64_t>(number), 25);
    Update(soap, StepOf(number), kSize, kSize, weights, gradients, state, PlainProduct);
    oracle.Update(soap, StepOf(number), gradients);
  }
  for (size_t i = 0; i < weights.size(); ++i) EXPECT_NEAR(weights[i], oracle.weights[i], 1e-5);
}

TEST(Soap, TheFirstStepChangesNoWeight) {
  const std::vector<float> before = Noise(1, 12);
  std::vector<float> weights = before, state(StateOf(Soap{}, 3, 4));
  Update(Soap{}, StepOf(1), 3, 4, weights, Noise(2, 12), state, PlainProduct);
  EXPECT_EQ(weights, before);
}

TEST(Soap, WithoutRotationsIsAdamWOneStepLater) {
  Soap soap;
  soap.most = 2;
  AdamW adamw;
  adamw.beta1 = adamw.beta2 = 0.95;
  std::vector<float> weights = Noise(1, 12), expected = weights, first(12), second(12);
  std::vector<float> state(StateOf(soap, 3, 4));
  EXPECT_EQ(state.size(), 24u);
  for (int number = 1; number <= 40; ++number) {
    const std::vector<float> gradients = Noise(100 + static_cast<uint64_t>(number), 12);
    Update(soap, StepOf(number), 3, 4, weights, gradients, state, PlainProduct);
    if (number > 1) Update(adamw, StepOf(number - 1), expected, gradients, first, second);
  }
  for (size_t i = 0; i < 12; ++i) EXPECT_NEAR(weights[i], expected[i], 1e-6) << i;
}

double DistanceFromOrthonormal(std::span<const float> rows, size_t size) {
  double most = 0;
  for (size_t i = 0; i < size; ++i) {
    for (size_t j = 0; j < size; ++j) {
      double dot = 0;
      for (size_t l = 0; l < size; ++l) {
        dot += static_cast<double>(rows[i * size + l]) * static_cast<double>(rows[j * size + l]);
      }
      most = std::max(most, std::abs(dot - (i == j ? 1 : 0)));
    }
  }
  return most;
}

// Each gradient has the rank 1, so that most eigenvalues are small against the largest ones.
TEST(Soap, RotationsStayOrthogonalOverTwoHundredSteps) {
  constexpr size_t kRows = 9, kColumns = 18, kCount = kRows * kColumns;
  for (const bool one_sided : {false, true}) {
    Soap soap;
    if (one_sided) soap.most = kRows;
    std::vector<float> weights(kCount), state(StateOf(soap, kRows, kColumns));
    for (int number = 1; number <= 200; ++number) {
      const auto seed = static_cast<uint64_t>(number);
      const std::vector<float> rows = Noise(seed, kRows), columns = Noise(1000 + seed, kColumns);
      std::vector<float> gradients(kCount);
      for (size_t i = 0; i < kCount; ++i) {
        gradients[i] = rows[i / kColumns] * columns[i % kColumns];
      }
      Update(soap, StepOf(number), kRows, kColumns, weights, gradients, state, PlainProduct);
    }
    const std::span<const float> rotation =
        std::span(state).subspan(2 * kCount + kRows * kRows, kRows * kRows);
    EXPECT_LT(DistanceFromOrthonormal(rotation, kRows), 1e-5);
    if (!one_sided) {
      EXPECT_LT(DistanceFromOrthonormal(std::span(state).last(kColumns * kColumns), kColumns),
                1e-5);
    }
    for (const float weight : weights) EXPECT_TRUE(std::isfinite(weight));
  }
}

TEST(Soap, GradientsOfZeroOnlyDecay) {
  std::vector<float> weights(6, 2), state(StateOf(Soap{}, 2, 3));
  for (int number = 1; number <= 12; ++number) {
    Update(Soap{}, StepOf(number), 2, 3, weights, std::vector<float>(6), state, PlainProduct);
  }
  for (const float weight : weights) EXPECT_NEAR(weight, 2 * std::pow(0.999, 11), 1e-5);
}

// 1/2 |A w B|^2 with the gradient A^2 w B^2, where A and B have the eigenvalues 1 to 1/30 in a
// random basis, so that no axis of a weight is one of the quadratic.
class RotatedQuadratic {
 public:
  static constexpr size_t kSide = 8;

  RotatedQuadratic() {
    // The rotations that SOAP computes of noise are as good as any.
    std::vector<float> weights(kSide * kSide), state(StateOf(Soap{}, kSide, kSide));
    Update(Soap{}, StepOf(1), kSide, kSide, weights, Noise(3, kSide * kSide), state, PlainProduct);
    left_ = WithValues(std::span(state).subspan(3 * kSide * kSide, kSide * kSide));
    right_ = WithValues(std::span(state).last(kSide * kSide));
  }

  std::vector<float> Gradient(const std::vector<float>& w) const {
    std::vector<float> half(w.size()), gradient(w.size());
    PlainProduct(kSide, kSide, kSide, left_.data(), w.data(), false, half.data());
    PlainProduct(kSide, kSide, kSide, half.data(), right_.data(), false, gradient.data());
    return gradient;
  }

  double Loss(const std::vector<float>& w) const {
    const std::vector<float> gradient = Gradient(w);
    double loss = 0;
    for (size_t i = 0; i < w.size(); ++i) loss += 0.5 * static_cast<double>(w[i] * gradient[i]);
    return loss;
  }

 private:
  // The sum of value_i^2 times the outer product of row i with itself.
  static std::vector<float> WithValues(std::span<const float> rows) {
    std::vector<float> matrix(kSide * kSide);
    for (size_t row = 0; row < kSide; ++row) {
      const double value = std::pow(30.0, -2.0 * static_cast<double>(row) / (kSide - 1));
      for (size_t at = 0; at < matrix.size(); ++at) {
        matrix[at] += static_cast<float>(value) * rows[row * kSide + at / kSide] *
                      rows[row * kSide + at % kSide];
      }
    }
    return matrix;
  }

  std::vector<float> left_, right_;
};

// The steps until the loss is 1e-3 of the first one, at the best of some rates.
template <typename Run>
int LeastSteps(const RotatedQuadratic& quadratic, const Run& run) {
  int least = 2000;
  for (const double rate : {0.01, 0.02, 0.05, 0.1, 0.2}) {
    std::vector<float> weights = Noise(7, RotatedQuadratic::kSide * RotatedQuadratic::kSide);
    const double goal = 1e-3 * quadratic.Loss(weights);
    auto step = run();
    int number = 1;
    for (; number < least && quadratic.Loss(weights) > goal; ++number) {
      Step arguments;
      arguments.number = static_cast<uint64_t>(number);
      arguments.rate = rate;
      step(arguments, weights, quadratic.Gradient(weights));
    }
    least = std::min(least, number);
  }
  return least;
}

TEST(Soap, ReachesTheOptimumOfARotatedQuadraticInFewerStepsThanAdam) {
  constexpr size_t kSide = RotatedQuadratic::kSide, kCount = kSide * kSide;
  const RotatedQuadratic quadratic;
  const int soap = LeastSteps(quadratic, [] {
    return [state = std::vector<float>(StateOf(Soap{}, kSide, kSide))](
               const Step& step, std::vector<float>& weights,
               const std::vector<float>& gradients) mutable {
      Update(Soap{}, step, kSide, kSide, weights, gradients, state, PlainProduct);
    };
  });
  AdamW adamw;
  adamw.beta1 = adamw.beta2 = 0.95;
  const int adam = LeastSteps(quadratic, [&] {
    return [adamw, first = std::vector<float>(kCount), second = std::vector<float>(kCount)](
               const Step& step, std::vector<float>& weights,
               const std::vector<float>& gradients) mutable {
      Update(adamw, step, weights, gradients, first, second);
    };
  });
  RecordProperty("soap", soap);
  RecordProperty("adam", adam);
  EXPECT_LT(soap, adam);
}

}  // namespace
}  // namespace longhaul::optimizer::soap_test
