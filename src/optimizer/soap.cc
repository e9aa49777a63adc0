#include "optimizer/soap.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <vector>

#include "base/check.h"
#include "optimizer/fixed_sum.h"
#include "optimizer/transposed.h"
#include "optimizer/vectorised.h"

namespace longhaul::optimizer {
namespace {

constexpr int kFirstIterations = 10;
// The number of reflections that a row is given at a time, and of rows that are given a reflection.
constexpr size_t kRowsAtATime = 8;

// One of the two dimensions of a matrix: L and P, or R and Q. Empty above the limit.
struct Side {
  size_t size;
  std::span<float> preconditioner, rotation;

  bool rotates() const { return !rotation.empty(); }
};

struct Parts {
  std::span<float> first, second;
  Side left, right;
};

size_t SquareOf(const Soap& soap, size_t size) { return size > soap.most ? 0 : size * size; }

Parts PartsOf(const Soap& soap, size_t rows, size_t columns, std::span<float> state) {
  const auto take = [&](size_t size) {
    const std::span<float> part = state.first(size);
    state = state.subspan(size);
    return part;
  };
  const size_t count = rows * columns;
  const size_t left = SquareOf(soap, rows), right = SquareOf(soap, columns);
  // In the order of the arguments in braces.
  return Parts{take(count), take(count), Side{rows, take(left), take(left)},
               Side{columns, take(right), take(right)}};
}

// out = first * a + second * out
LONGHAUL_VECTORISED
void Blend(size_t count, float first, const float* __restrict a, float second,
           float* __restrict out) {
  for (size_t i = 0; i < count; ++i) out[i] = first * a[i] + second * out[i];
}

struct SoapConstants {
  float beta2, rest2, correction1, correction2, epsilon;
};

// Sets u from M to U.
LONGHAUL_VECTORISED
void RunRotated(const SoapConstants& k, size_t count, const float* __restrict g,
                float* __restrict v, float* __restrict u) {
  for (size_t i = 0; i < count; ++i) {
    v[i] = k.beta2 * v[i] + k.rest2 * (g[i] * g[i]);
    u[i] = u[i] * k.correction1 / (std::sqrt(v[i] * k.correction2) + k.epsilon);
  }
}

// row -= factor * <row, v> * v
LONGHAUL_VECTORISED
void Reflect(size_t count, double factor, const double* __restrict v, double* __restrict row) {
  const double dot = FixedSum(
      count, [&](size_t i) __attribute__((always_inline)) { return row[i] * v[i]; });
  const double by = factor * dot;
  for (size_t i = 0; i < count; ++i) row[i] -= by * v[i];
}

// Turns row k from its element k on into the vector of the reflection that moves the row to this
// element, and returns the factor of the reflection.
double MakeReflection(size_t count, double* v) {
  const double length = std::sqrt(FixedSum(count, [&](size_t i) { return v[i] * v[i]; }));
  if (!(length > 0)) return 0;
  v[0] += std::copysign(length, v[0]);
  return 1 / (length * std::abs(v[0]));  // 2 / |v|^2
}

// Makes the rows of a square matrix orthonormal, in their order: those of the orthogonal factor.
// `matrix` is changed to the vectors of the reflections.
void Orthonormalise(size_t size, std::vector<double>& matrix, std::span<float> rows) {
  std::vector<double> factors(size);
  const auto reflect = [&](size_t k, double* row) {
    Reflect(size - k, factors[k], matrix.data() + k * size + k, row + k);
  };
  for (size_t top = 0; top < size; top += kRowsAtATime) {
    const size_t end = std::min(top + kRowsAtATime, size);
    for (size_t k = top; k < end; ++k) {
      factors[k] = MakeReflection(size - k, matrix.data() + k * size + k);
      for (size_t i = k + 1; i < end; ++i) reflect(k, matrix.data() + i * size);
    }
    for (size_t i = end; i < size; ++i) {
      for (size_t k = top; k < end; ++k) reflect(k, matrix.data() + i * size);
    }
  }
  // Row i of the unit matrix, which reflections after the ith one do not change.
  std::vector<double> units(kRowsAtATime * size);
  for (size_t top = 0; top < size; top += kRowsAtATime) {
    const size_t end = std::min(top + kRowsAtATime, size);
    std::fill(units.begin(), units.end(), 0.0);
    for (size_t i = top; i < end; ++i) units[(i - top) * size + i] = 1;
    for (size_t k = end; k-- > 0;) {
      for (size_t i = std::max(k, top); i < end; ++i) reflect(k, units.data() + (i - top) * size);
    }
    for (size_t i = 0; i < (end - top) * size; ++i) {
      rows[top * size + i] = static_cast<float>(units[i]);
    }
  }
}

// One orthogonal iteration. Returns the order of the former rows.
std::vector<size_t> Refresh(const Side& side, const MatrixProduct& product) {
  const size_t size = side.size;
  std::vector<float> moved(size * size);
  product(size, size, size, side.rotation.data(), side.preconditioner.data(), false, moved.data());
  std::vector<double> values(size);
  for (size_t row = 0; row < size; ++row) {
    values[row] = FixedSum(size, [&](size_t i) {
      return static_cast<double>(moved[row * size + i]) *
             static_cast<double>(side.rotation[row * size + i]);
    });
  }
  std::vector<size_t> order(size);
  std::iota(order.begin(), order.end(), size_t{0});
  std::stable_sort(order.begin(), order.end(),
                   [&](size_t a, size_t b) { return values[a] > values[b]; });
  std::vector<double> sorted(size * size);
  for (size_t row = 0; row < size; ++row) {
    std::copy_n(moved.begin() + static_cast<std::ptrdiff_t>(order[row] * size), size,
                sorted.begin() + static_cast<std::ptrdiff_t>(row * size));
  }
  Orthonormalise(size, sorted, side.rotation);
  return order;
}

void RefreshBoth(const Parts& parts, const MatrixProduct& product) {
  const size_t rows = parts.left.size, columns = parts.right.size;
  const std::vector<float> before(parts.second.begin(), parts.second.end());
  std::vector<size_t> of_rows(rows), of_columns(columns);
  std::iota(of_rows.begin(), of_rows.end(), size_t{0});
  std::iota(of_columns.begin(), of_columns.end(), size_t{0});
  if (parts.left.rotates()) of_rows = Refresh(parts.left, product);
  if (parts.right.rotates()) of_columns = Refresh(parts.right, product);
  for (size_t i = 0; i < rows; ++i) {
    for (size_t j = 0; j < columns; ++j) {
      parts.second[i * columns + j] = before[of_rows[i] * columns + of_columns[j]];
    }
  }
}

// P x Q^T
std::vector<float> Rotated(const Parts& parts, std::span<const float> x,
                           const MatrixProduct& product) {
  const size_t rows = parts.left.size, columns = parts.right.size;
  std::vector<float> rotated(x.begin(), x.end()), next(x.size());
  if (parts.left.rotates()) {
    product(rows, columns, rows, parts.left.rotation.data(), rotated.data(), false, next.data());
    rotated.swap(next);
  }
  if (parts.right.rotates()) {
    product(rows, columns, columns, rotated.data(), parts.right.rotation.data(), true, next.data());
    rotated.swap(next);
  }
  return rotated;
}

// P^T x Q
std::vector<float> RotatedBack(const Parts& parts, std::vector<float> x,
                               const MatrixProduct& product) {
  const size_t rows = parts.left.size, columns = parts.right.size;
  std::vector<float> next(x.size());
  if (parts.left.rotates()) {
    const std::vector<float> transposed = Transposed(rows, rows, parts.left.rotation);
    product(rows, columns, rows, transposed.data(), x.data(), false, next.data());
    x.swap(next);
  }
  if (parts.right.rotates()) {
    product(rows, columns, columns, x.data(), parts.right.rotation.data(), false, next.data());
    x.swap(next);
  }
  return x;
}

// Moves L or R on: `by` is g' or its transpose, whose rows are as many as the side's size.
void MovePreconditioner(double beta, const Side& side, size_t width, std::span<const float> by,
                        const MatrixProduct& product) {
  if (!side.rotates()) return;
  std::vector<float> square(side.size * side.size);
  product(side.size, side.size, width, by.data(), by.data(), true, square.data());
  Blend(square.size(), static_cast<float>(1 - beta), square.data(), static_cast<float>(beta),
        side.preconditioner.data());
}

void Begin(const Parts& parts, const MatrixProduct& product) {
  for (const Side* side : {&parts.left, &parts.right}) {
    if (!side->rotates()) continue;
    for (size_t i = 0; i < side->size; ++i) side->rotation[i * side->size + i] = 1;
    for (int i = 0; i < kFirstIterations; ++i) Refresh(*side, product);
  }
}

}  // namespace

size_t StateOf(const Soap& soap, size_t rows, size_t columns) {
  return 2 * (rows * columns + SquareOf(soap, rows) + SquareOf(soap, columns));
}

void Update(const Soap& soap, const Step& step, size_t rows, size_t columns,
            std::span<float> weights, std::span<const float> gradients, std::span<float> state,
            const MatrixProduct& product) {
  const size_t count = rows * columns;
  CHECK(step.number >= 1 && soap.every >= 1);
  CHECK(weights.size() == count && gradients.size() == count);
  CHECK(state.size() == StateOf(soap, rows, columns));
  const Parts parts = PartsOf(soap, rows, columns, state);
  std::vector<float> scaled(count);
  Blend(count, static_cast<float>(step.scale), gradients.data(), 0, scaled.data());
  if (step.number > 1) {
    const auto t = static_cast<double>(step.number - 1);
    Blend(count, static_cast<float>(1 - soap.beta1), scaled.data(), static_cast<float>(soap.beta1),
          parts.first.data());
    const std::vector<float> rotated = Rotated(parts, scaled, product);
    std::vector<float> moved = Rotated(parts, parts.first, product);
    RunRotated({.beta2 = static_cast<float>(soap.beta2),
                .rest2 = static_cast<float>(1 - soap.beta2),
                .correction1 = static_cast<float>(1 / (1 - std::pow(soap.beta1, t))),
                .correction2 = static_cast<float>(1 / (1 - std::pow(soap.beta2, t))),
                .epsilon = static_cast<float>(soap.epsilon)},
               count, rotated.data(), parts.second.data(), moved.data());
    const std::vector<float> update = RotatedBack(parts, std::move(moved), product);
    Blend(count, static_cast<float>(-step.rate), update.data(),
          static_cast<float>(1 - step.rate * step.decay), weights.data());
  }
  MovePreconditioner(soap.beta, parts.left, columns, scaled, product);
  if (parts.right.rotates()) {
    MovePreconditioner(soap.beta, parts.right, rows, Transposed(rows, columns, scaled), product);
  }
  if (step.number == 1) {
    Begin(parts, product);
  } else if ((step.number - 1) % soap.every == 0) {
    RefreshBoth(parts, product);
  }
}

}  // namespace longhaul::optimizer
