// Sums whose bits do not depend on how a batch or a model is divided (bitwise mode).
#pragma once

#include <ATen/ATen.h>

#include <cstdint>
#include <map>
#include <utility>

namespace longhaul::training {

// Sums tensors by their indices 0, 1, ... in the order of a binary tree: two neighbours, then two
// pairs of neighbours, and so on; what has no neighbour goes up alone. They may come in any order.
// The sum of 2^k neighbours from a multiple of 2^k on is a node of the tree, so that ranks with
// such ranges can go on from their sums.
class SumTree {
 public:
  void Add(uint64_t index, at::Tensor values);  // which it keeps
  // Of all that were added; undefined if there was none. Empties the tree.
  at::Tensor Take();

 private:
  void Put(uint32_t level, uint64_t index, at::Tensor values);

  std::map<std::pair<uint32_t, uint64_t>, at::Tensor> nodes_;
};

// A sum in fixed point: each number is rounded to a multiple of 2^-80, and these are added exactly.
class FixedSum {
 public:
  static constexpr int64_t kLimbs = 3;

  // Requires a finite number below 2^40 in size, else the sum is not a number.
  void Add(double number);
  void AddSquares(const at::Tensor& values);

  // As whole numbers that ranks may add: [kLimbs + 1] of int64, the last one counts what was not
  // finite or too large.
  at::Tensor Limbs() const;
  static double Value(const at::Tensor& limbs);

 private:
  __int128 sum_ = 0;
  int64_t refused_ = 0;
};

}  // namespace longhaul::training
