// Context parallelism: causal attention over sequences whose tokens are divided over a ring.
//
// Keys and values go round the ring. Each rank attends with its queries to one block after another
// and keeps the running maximum m, sum l and output o (Liu et al., Ring Attention, 2023; Dao et
// al., FlashAttention, 2022):
//   m' = max(m, max s),  p = exp(s - m'),  l' = l exp(m - m') + sum p,  o' = o exp(m - m') + p v
// The backward pass computes p = exp(s - log-sum) anew, and the gradients of keys and values travel
// with them and are home after a full round. layout.h has the order of the tokens.
#pragma once

#include <ATen/ATen.h>

#include "training/dimensions/rank.h"

namespace longhaul::training {

// Queries [tokens, batch, heads, width], keys and values [tokens, batch, key heads, width], which
// neighbouring queries' heads share -> [tokens, batch, heads * width].
at::Tensor CausalAttention(const at::Tensor& query, const at::Tensor& key, const at::Tensor& value,
                           RankContext& rank);

}  // namespace longhaul::training
