#include "optimizer/muon.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "base/check.h"
#include "optimizer/fixed_sum.h"
#include "optimizer/transposed.h"
#include "optimizer/vectorised.h"

namespace longhaul::optimizer {
namespace {

constexpr int kIterations = 5;
constexpr float kFirst = 3.4445F, kThird = -4.7750F, kFifth = 2.0315F;

struct MuonConstants {
  float momentum, rest, scale;
};

LONGHAUL_VECTORISED
void Accumulate(const MuonConstants& k, size_t count, const float* __restrict g,
                float* __restrict b, float* __restrict u) {
  for (size_t i = 0; i < count; ++i) {
    const float gradient = g[i] * k.scale;
    b[i] = k.momentum * b[i] + k.rest * gradient;
    u[i] = k.rest * gradient + k.momentum * b[i];
  }
}

// out = first * a + second * out
LONGHAUL_VECTORISED
void Add(size_t count, float first, const float* __restrict a, float second,
         float* __restrict out) {
  for (size_t i = 0; i < count; ++i) out[i] = first * a[i] + second * out[i];
}

LONGHAUL_VECTORISED
double SquaresOf(size_t count, const float* values) {
  return FixedSum(
      count, [&](size_t i) __attribute__((always_inline)) {
        return static_cast<double>(values[i]) * static_cast<double>(values[i]);
      });
}

}  // namespace

void Orthogonalise(size_t rows, size_t columns, std::span<float> matrix,
                   const MatrixProduct& product) {
  CHECK(rows <= columns && matrix.size() == rows * columns);
  std::vector<float> square(rows * rows), fourth(rows * rows), next(rows * columns);
  for (int i = 0; i < kIterations; ++i) {
    product(rows, rows, columns, matrix.data(), matrix.data(), /*transpose_b=*/true, square.data());
    product(rows, rows, rows, square.data(), square.data(), /*transpose_b=*/false, fourth.data());
    Add(square.size(), kFifth, fourth.data(), kThird, square.data());
    product(rows, columns, rows, square.data(), matrix.data(), /*transpose_b=*/false, next.data());
    Add(matrix.size(), 1.0F, next.data(), kFirst, matrix.data());
  }
}

void Update(const Muon& muon, const Step& step, size_t rows, size_t columns,
            std::span<float> weights, std::span<const float> gradients, std::span<float> momentum,
            const MatrixProduct& product) {
  const size_t count = rows * columns;
  CHECK(weights.size() == count && gradients.size() == count && momentum.size() == count);
  std::vector<float> direction(count);
  Accumulate({static_cast<float>(muon.momentum), static_cast<float>(1 - muon.momentum),
              static_cast<float>(step.scale)},
             count, gradients.data(), momentum.data(), direction.data());
  const auto factor =
      static_cast<float>(1 / std::max(std::sqrt(SquaresOf(count, direction.data())), 1e-7));
  for (float& value : direction) value *= factor;
  const bool tall = rows > columns;
  if (tall) direction = Transposed(rows, columns, direction);
  Orthogonalise(std::min(rows, columns), std::max(rows, columns), direction, product);
  if (tall) direction = Transposed(columns, rows, direction);
  const auto height = static_cast<double>(rows), width = static_cast<double>(columns);
  const double k = muon.scaling == Muon::Scaling::kShape ? std::sqrt(std::max(1.0, height / width))
                                                         : 0.2 * std::sqrt(std::max(height, width));
  Add(count, static_cast<float>(-step.rate * k), direction.data(),
      static_cast<float>(1 - step.rate * step.decay), weights.data());
}

}  // namespace longhaul::optimizer
