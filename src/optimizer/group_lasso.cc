#include "optimizer/group_lasso.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "base/check.h"
#include "optimizer/fixed_sum.h"
#include "optimizer/vectorised.h"

namespace longhaul::optimizer {
namespace {

// Whole rows of about so many elements are worked on at a time, so that the second look at them
// finds them in the cache.
constexpr size_t kRowsChunk = 1024;

struct GroupAdamConstants {
  float beta1, rest1, beta2, rest2, rate, first_epsilon, epsilon, scale;
};

[[gnu::always_inline]] inline void StepGroupAdam(const GroupAdamConstants& k, float x, float g,
                                                 float& m, float& v, float& z, float& root) {
  const float gradient = g * k.scale;
  const float before = std::sqrt(v);
  m = k.beta1 * m + k.rest1 * gradient;
  v = k.beta2 * v + k.rest2 * (gradient * gradient);
  const float after = std::sqrt(v);
  z += k.rate * m - (after - before + k.first_epsilon) * x;
  root = after + k.epsilon;
}

// `root` gets the denominators of x without the penalties.
LONGHAUL_VECTORISED
void RunGroupAdam(const GroupAdamConstants& k, size_t count, const float* __restrict x,
                  const float* __restrict g, float* __restrict m, float* __restrict v,
                  float* __restrict z, float* __restrict root) {
  size_t at = 0;
  for (; at + kBlock <= count; at += kBlock) {
    FetchAhead(at, g, m, v);  // SetRows fetches x and z
    for (size_t i = at; i < at + kBlock; ++i) {
      StepGroupAdam(k, x[i], g[i], m[i], v[i], z[i], root[i]);
    }
  }
  for (; at < count; ++at) StepGroupAdam(k, x[at], g[at], m[at], v[at], z[at], root[at]);
}

struct GroupAdaGradConstants {
  float scale, per_rate;
};

[[gnu::always_inline]] inline void StepGroupAdaGrad(const GroupAdaGradConstants& k, float x,
                                                    float g, float& n, float& z, float& root) {
  const float gradient = g * k.scale;
  const float before = std::sqrt(n);
  n += gradient * gradient;
  const float after = std::sqrt(n);
  z += gradient - (after - before) * k.per_rate * x;
  root = after * k.per_rate;
}

// For the power 1/2.
LONGHAUL_VECTORISED
void RunGroupAdaGrad(const GroupAdaGradConstants& k, size_t count, const float* __restrict x,
                     const float* __restrict g, float* __restrict n, float* __restrict z,
                     float* __restrict root) {
  size_t at = 0;
  for (; at + kBlock <= count; at += kBlock) {
    FetchAhead(at, g, n);  // SetRows fetches x and z
    for (size_t i = at; i < at + kBlock; ++i) {
      StepGroupAdaGrad(k, x[i], g[i], n[i], z[i], root[i]);
    }
  }
  for (; at < count; ++at) StepGroupAdaGrad(k, x[at], g[at], n[at], z[at], root[at]);
}

// For any other power, which is computed in double by the C library.
void RunGroupFtrl(double power, const Step& step, size_t count, const float* x, const float* g,
                  float* n, float* z, float* root) {
  for (size_t i = 0; i < count; ++i) {
    const double gradient = static_cast<double>(g[i]) * step.scale;
    const double before = std::pow(static_cast<double>(n[i]), power);
    n[i] = static_cast<float>(static_cast<double>(n[i]) + gradient * gradient);
    const double after = std::pow(static_cast<double>(n[i]), power);
    const double change = gradient - (after - before) / step.rate * static_cast<double>(x[i]);
    z[i] = static_cast<float>(static_cast<double>(z[i]) + change);
    root[i] = static_cast<float>(after / step.rate);
  }
}

struct Shrink {
  float l1, twice_l2;
  double l21;
};

[[gnu::always_inline]] inline float Shrunk(float z, float l1) {
  return std::min(std::max(z, -l1), l1) - z;
}

// Sets x of some rows, and returns the number of those that are 0. All its input is in the cache,
// so it fetches two streams of as many rows that follow: group Adam then takes 0.83 of the time
// that it takes where the first look fetches all streams. The length of s is in double, because its
// square may be too small or too large for a float.
LONGHAUL_VECTORISED
size_t SetRows(const Shrink& k, size_t columns, size_t rows, const float* __restrict z,
               const float* __restrict root, float* __restrict x) {
  const size_t ahead = rows * columns;
  size_t dropped = 0;
  for (size_t row = 0; row < rows; ++row, z += columns, root += columns, x += columns) {
    for (size_t at = 0; at < columns; at += kBlock) {
      __builtin_prefetch(x + ahead + at);
      __builtin_prefetch(z + ahead + at);
    }
    const double squares = FixedSum(
        columns, [&](size_t i) __attribute__((always_inline)) {
          const auto s = static_cast<double>(Shrunk(z[i], k.l1));
          return s * s;
        });
    if (squares <= k.l21 * k.l21) {
      for (size_t i = 0; i < columns; ++i) x[i] = 0;
      ++dropped;
      continue;
    }
    const auto share = static_cast<float>(1 - k.l21 / std::sqrt(squares));
    const auto set = [&](size_t i) __attribute__((always_inline)) {
      x[i] = share * Shrunk(z[i], k.l1) / (root[i] + k.twice_l2);
    };
    size_t at = 0;
    for (; at + kBlock <= columns; at += kBlock) {
      for (size_t i = at; i < at + kBlock; ++i) set(i);
    }
    for (; at < columns; ++at) set(at);
  }
  return dropped;
}

// Runs advance(begin, count, root) and then SetRows on chunks of whole rows.
template <typename Advance>
size_t ForRows(const Shrink& shrink, size_t columns, std::span<float> weights,
               std::span<const float> offset, const Advance& advance) {
  const size_t rows = weights.size() / columns;
  const size_t step = std::max<size_t>(1, kRowsChunk / columns);
  std::vector<float> root(std::min(step, rows) * columns);
  size_t dropped = 0;
  for (size_t row = 0; row < rows; row += step) {
    const size_t here = std::min(step, rows - row), at = row * columns;
    advance(at, here * columns, root.data());
    dropped += SetRows(shrink, columns, here, offset.data() + at, root.data(), weights.data() + at);
  }
  return dropped;
}

// The penalties as they act on z, of rows of so many elements.
Shrink ShrinkOf(const Penalties& penalties, double factor, size_t columns) {
  return {.l1 = static_cast<float>(penalties.l1 * factor),
          .twice_l2 = static_cast<float>(2 * penalties.l2 * factor),
          .l21 = penalties.l21 * factor * std::sqrt(static_cast<double>(columns))};
}

}  // namespace

size_t Update(const GroupAdam& adam, const Step& step, size_t columns, std::span<float> weights,
              std::span<const float> gradients, std::span<float> first, std::span<float> second,
              std::span<float> offset) {
  const size_t count = weights.size();
  CHECK(step.number >= 1 && columns >= 1 && count % columns == 0);
  CHECK(gradients.size() == count && first.size() == count && second.size() == count &&
        offset.size() == count);
  const auto t = static_cast<double>(step.number);
  const double rate =
      step.rate * std::sqrt(1 - std::pow(adam.beta2, t)) / (1 - std::pow(adam.beta1, t));
  const GroupAdamConstants constants = {
      .beta1 = static_cast<float>(adam.beta1),
      .rest1 = static_cast<float>(1 - adam.beta1),
      .beta2 = static_cast<float>(adam.beta2),
      .rest2 = static_cast<float>(1 - adam.beta2),
      .rate = static_cast<float>(rate),
      .first_epsilon = step.number == 1 ? static_cast<float>(adam.epsilon) : 0.0F,
      .epsilon = static_cast<float>(adam.epsilon),
      .scale = static_cast<float>(step.scale)};
  return ForRows(ShrinkOf(adam.penalties, step.rate, columns), columns, weights, offset,
                 [&](size_t at, size_t size, float* root) {
                   RunGroupAdam(constants, size, weights.data() + at, gradients.data() + at,
                                first.data() + at, second.data() + at, offset.data() + at, root);
                 });
}

void Begin(const GroupAdaGrad& adagrad, double rate, std::span<const float> weights,
           std::span<float> sum, std::span<float> offset) {
  CHECK(sum.size() == weights.size() && offset.size() == weights.size());
  const double factor = std::pow(adagrad.initial, adagrad.power) / rate;
  std::fill(sum.begin(), sum.end(), static_cast<float>(adagrad.initial));
  for (size_t i = 0; i < weights.size(); ++i) {
    offset[i] = static_cast<float>(-factor * static_cast<double>(weights[i]));
  }
}

size_t Update(const GroupAdaGrad& adagrad, const Step& step, size_t columns,
              std::span<float> weights, std::span<const float> gradients, std::span<float> sum,
              std::span<float> offset) {
  const size_t count = weights.size();
  CHECK(columns >= 1 && count % columns == 0);
  CHECK(gradients.size() == count && sum.size() == count && offset.size() == count);
  const GroupAdaGradConstants constants = {.scale = static_cast<float>(step.scale),
                                           .per_rate = static_cast<float>(1 / step.rate)};
  return ForRows(ShrinkOf(adagrad.penalties, 1, columns), columns, weights, offset,
                 [&](size_t at, size_t size, float* root) {
                   const float *x = weights.data() + at, *g = gradients.data() + at;
                   float *n = sum.data() + at, *z = offset.data() + at;
                   if (adagrad.power == 0.5) {
                     RunGroupAdaGrad(constants, size, x, g, n, z, root);
                   } else {
                     RunGroupFtrl(adagrad.power, step, size, x, g, n, z, root);
                   }
                 });
}

}  // namespace longhaul::optimizer
