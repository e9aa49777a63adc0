// A sum in double whose order depends on the number of terms only: term i is added to lane i mod
// 16, and the lanes are added pairwise. The loop is vectorised for any processor with the same
// bits.
#pragma once

#include <array>
#include <cstddef>

namespace longhaul::optimizer {

inline constexpr size_t kLanes = 16;

// The sum of term(0) to term(count - 1).
template <typename Term>
[[gnu::always_inline]] inline double FixedSum(size_t count, const Term& term) {
  std::array<double, kLanes> lanes = {};
  size_t at = 0;
  for (; at + kLanes <= count; at += kLanes) {
    for (size_t lane = 0; lane < kLanes; ++lane) lanes[lane] += term(at + lane);
  }
  for (size_t lane = 0; at < count; ++at, ++lane) lanes[lane] += term(at);
  for (size_t half = kLanes / 2; half > 0; half /= 2) {
    for (size_t lane = 0; lane < half; ++lane) lanes[lane] += lanes[lane + half];
  }
  return lanes[0];
}

}  // namespace longhaul::optimizer
