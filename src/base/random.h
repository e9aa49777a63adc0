// Random numbers that are the same on every machine and library: xoshiro256** (Blackman and Vigna,
// ACM TOMS 2021) seeded by SplitMix64. Not for secrets.
#pragma once

#include <array>
#include <cmath>
#include <cstdint>

#include "base/check.h"

namespace longhaul {

// One step of SplitMix64 (Steele, Lea and Flood, OOPSLA 2014): also a good 64-bit mixer.
constexpr uint64_t SplitMix64(uint64_t& state) {
  state += 0x9E3779B97F4A7C15u;
  uint64_t z = state;
  z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9u;
  z = (z ^ (z >> 27)) * 0x94D049BB133111EBu;
  return z ^ (z >> 31);
}

class Random {
 public:
  explicit Random(uint64_t seed) {
    for (uint64_t& word : state_) word = SplitMix64(seed);
  }

  // Uniform over all 64-bit numbers.
  uint64_t Next() {
    const uint64_t result = Rotate(state_[1] * 5, 7) * 9;
    const uint64_t t = state_[1] << 17;
    state_[2] ^= state_[0];
    state_[3] ^= state_[1];
    state_[1] ^= state_[2];
    state_[0] ^= state_[3];
    state_[2] ^= t;
    state_[3] = Rotate(state_[3], 45);
    return result;
  }

  // Uniform in [0, bound), with a negligible bias (2^-64 of `bound`). Requires bound >= 1.
  uint64_t Below(uint64_t bound) {
    CHECK(bound >= 1);
    return static_cast<uint64_t>((static_cast<unsigned __int128>(Next()) * bound) >> 64);
  }

  // Uniform in [0, 1).
  double Uniform() { return static_cast<double>(Next() >> 11) * 0x1p-53; }

  // Exponential with the given mean. Its last bit depends on how the C library rounds log1p: equal
  // on one machine, not kept in files.
  double Exponential(double mean) { return -mean * std::log1p(-Uniform()); }

 private:
  static constexpr uint64_t Rotate(uint64_t x, int k) { return (x << k) | (x >> (64 - k)); }

  std::array<uint64_t, 4> state_;
};

}  // namespace longhaul
