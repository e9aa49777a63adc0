// Tensor parallelism: the operations that a layer divided over the ranks of a group needs besides
// its own matmuls (Shoeybi et al., Megatron-LM, 2019).
//
//   enter:  forward identity, backward sum of the gradients over the group
//   leave:  forward sum over the group, backward identity
//   loss:   m = max over words, s = sum over words of exp(z - m), both over the group;
//           loss = sum over rows of log s + m - z[target]; gradient softmax(z) - onehot(target) on
//           the words that are here. The logits are never gathered.
//
// libtorch cannot report that a sum failed: the first failure is kept in the part, and all later
// results are meaningless. Leaves out sequence parallelism.
#pragma once

#include <ATen/ATen.h>

#include <cstdint>

#include "base/status.h"
#include "trainer/parallel/group.h"

namespace longhaul::trainer {

// The shared state of one model's operators. Outlives every backward.
struct TensorParallel {
  Group* group = nullptr;  // null: this rank holds everything
  Status failure;

  bool alone() const { return group == nullptr || group->world() == 1; }
  void Sum(at::Tensor& values);
  void Max(at::Tensor& values);
};

// Returns `x` itself where this rank holds everything; the same applies below.
at::Tensor EnterParallel(const at::Tensor& x, TensorParallel& parallel);
at::Tensor LeaveParallel(const at::Tensor& x, TensorParallel& parallel);

// Sum over rows, in nats, the same on every part. `logits` are for the words from `first_word` on,
// `targets` are words of the whole vocabulary.
at::Tensor SummedVocabularyLoss(const at::Tensor& logits, const at::Tensor& targets,
                                int64_t first_word, TensorParallel& parallel);

}  // namespace longhaul::trainer
