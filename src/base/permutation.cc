#include "base/permutation.h"

#include <bit>

#include "base/check.h"
#include "base/random.h"

namespace longhaul {

Permutation::Permutation(uint64_t size, uint64_t key) : size_(size) {
  CHECK(size >= 1);
  // Mixed once, because the rounds combine the key with a half by exclusive or: two raw keys that
  // differ in low bits only (the passes 1 and 2 of a job) would give orders that mirror each other.
  key_ = SplitMix64(key);
  // The network permutes 2^(2 * half_bits_) numbers: at most four times as many as are wanted, so
  // At() walks fewer than four rounds on average.
  const int bits = static_cast<int>(std::bit_width(size - 1));
  half_bits_ = bits < 2 ? 1 : (bits + 1) / 2;
}

uint64_t Permutation::At(uint64_t position) const {
  CHECK(position < size_);
  const uint64_t mask = (uint64_t{1} << half_bits_) - 1;
  uint64_t value = position;
  do {
    uint64_t left = value >> half_bits_;
    uint64_t right = value & mask;
    for (uint64_t round = 0; round < 4; ++round) {
      uint64_t state = key_ ^ (right + (round << 58));
      const uint64_t mixed = SplitMix64(state) & mask;
      const uint64_t next = left ^ mixed;
      left = right;
      right = next;
    }
    value = (left << half_bits_) | right;
  } while (value >= size_);
  return value;
}

}  // namespace longhaul
