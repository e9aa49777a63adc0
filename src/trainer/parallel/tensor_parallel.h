// Tensor parallelism: what a layer cut over the ranks of a group needs beside its own matmuls
// (Shoeybi et al., Megatron-LM, 2019).
//
//   enter:  forward identity, backward sum of the gradients over the group
//   leave:  forward sum over the group, backward identity
//   loss:   m = max over words, s = sum over words of exp(z - m), both over the group;
//           loss = sum over rows of log s + m - z[target]; gradient softmax(z) - onehot(target) on
//           the words that are here. The logits are never gathered.
//
// libtorch has no way to say that a sum failed: the first failure is kept in the part, and what is
// computed after it means nothing. Leaves out sequence parallelism.
#pragma once

#include <ATen/ATen.h>

#include <cstdint>

#include "base/status.h"
#include "trainer/parallel/group.h"

namespace longhaul::trainer {

// What the operators of one model share. Outlives every backward.
struct TensorParallel {
  Group* group = nullptr;  // null: all is here
  Status failure;

  bool alone() const { return group == nullptr || group->world() == 1; }
  void Sum(at::Tensor& values);
  void Max(at::Tensor& values);
};

// `x` itself where all is here; likewise below.
at::Tensor EnterParallel(const at::Tensor& x, TensorParallel& parallel);
at::Tensor LeaveParallel(const at::Tensor& x, TensorParallel& parallel);

// Sum over rows, in nats, the same on every part. `logits` are of the words from `first_word` on,
// `targets` words of the whole vocabulary.
at::Tensor SummedVocabularyLoss(const at::Tensor& logits, const at::Tensor& targets,
                                int64_t first_word, TensorParallel& parallel);

}  // namespace longhaul::trainer
