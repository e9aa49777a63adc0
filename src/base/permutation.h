// A keyed permutation of [0, size): the order of the samples of one pass over the data.
//
// A balanced Feistel network of four rounds with cycle walking (Black and Rogaway, CT-RSA 2002), so
// any position is computed in constant time and nothing is stored. Not for secrets.
#pragma once

#include <cstdint>

namespace longhaul {

class Permutation {
 public:
  // Requires size >= 1.
  Permutation(uint64_t size, uint64_t key);

  // The element at `position`; every element is at exactly one position. Requires position < size.
  uint64_t At(uint64_t position) const;

  uint64_t size() const { return size_; }

 private:
  uint64_t size_;
  uint64_t key_;
  int half_bits_;
};

}  // namespace longhaul
