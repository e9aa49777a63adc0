#include "optimizer/group_lasso.h"

#include <algorithm>
#include <cmath>

#include "base/check.h"
#include "optimizer/vectorised.h"

namespace longhaul::optimizer {
namespace {

struct GroupAdamConstants {
  float beta1, rest1, beta2, rest2, rate, first_epsilon, scale;
};

LONGHAUL_VECTORISED
void RunGroupAdam(const GroupAdamConstants& k, size_t count, const float* __restrict x,
                  const float* __restrict g, float* __restrict m, float* __restrict v,
                  float* __restrict z) {
  for (size_t i = 0; i < count; ++i) {
    const float gradient = g[i] * k.scale;
    m[i] = k.beta1 * m[i] + k.rest1 * gradient;
    const float before = std::sqrt(v[i]);
    v[i] = k.beta2 * v[i] + k.rest2 * (gradient * gradient);
    z[i] += k.rate * m[i] - (std::sqrt(v[i]) - before + k.first_epsilon) * x[i];
  }
}

// The length of a row's s, in double and in the order of the row.
double Length(std::span<const float> offset, float l1) {
  double sum = 0;
  for (const float z : offset) {
    const double s = static_cast<double>(std::clamp(z, -l1, l1)) - static_cast<double>(z);
    sum += s * s;
  }
  return std::sqrt(sum);
}

// x of one row: `root(i)` is the denominator of its i-th element without the penalties.
template <typename Root>
bool SetRow(std::span<float> row, std::span<const float> offset, const Penalties& scaled,
            const Root& root) {
  const auto l1 = static_cast<float>(scaled.l1);
  const double length = Length(offset, l1);
  if (length <= scaled.l21) {
    std::fill(row.begin(), row.end(), 0.0F);
    return false;
  }
  const auto share = static_cast<float>(1 - scaled.l21 / length);
  const auto twice = static_cast<float>(2 * scaled.l2);
  for (size_t i = 0; i < row.size(); ++i) {
    row[i] = share * (std::clamp(offset[i], -l1, l1) - offset[i]) / (root(i) + twice);
  }
  return true;
}

// The penalties as they act on z, of rows of so many elements.
Penalties Scaled(const Penalties& penalties, double factor, size_t columns) {
  return {penalties.l1 * factor, penalties.l2 * factor,
          penalties.l21 * factor * std::sqrt(static_cast<double>(columns))};
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
      .scale = static_cast<float>(step.scale)};
  RunGroupAdam(constants, count, weights.data(), gradients.data(), first.data(), second.data(),
               offset.data());
  const Penalties scaled = Scaled(adam.penalties, step.rate, columns);
  const auto epsilon = static_cast<float>(adam.epsilon);
  size_t dropped = 0;
  for (size_t at = 0; at < count; at += columns) {
    const auto root = [&](size_t i) { return std::sqrt(second[at + i]) + epsilon; };
    dropped += !SetRow(weights.subspan(at, columns), offset.subspan(at, columns), scaled, root);
  }
  return dropped;
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
  const auto power = [&](float n) {
    const double wide = n;
    return adagrad.power == 0.5 ? std::sqrt(wide) : std::pow(wide, adagrad.power);
  };
  for (size_t i = 0; i < count; ++i) {
    const double gradient = static_cast<double>(gradients[i]) * step.scale;
    const double before = power(sum[i]);
    sum[i] = static_cast<float>(static_cast<double>(sum[i]) + gradient * gradient);
    const double change = gradient - (power(sum[i]) - before) / step.rate * weights[i];
    offset[i] = static_cast<float>(static_cast<double>(offset[i]) + change);
  }
  const Penalties scaled = Scaled(adagrad.penalties, 1, columns);
  size_t dropped = 0;
  for (size_t at = 0; at < count; at += columns) {
    const auto root = [&](size_t i) { return static_cast<float>(power(sum[at + i]) / step.rate); };
    dropped += !SetRow(weights.subspan(at, columns), offset.subspan(at, columns), scaled, root);
  }
  return dropped;
}

}  // namespace longhaul::optimizer
