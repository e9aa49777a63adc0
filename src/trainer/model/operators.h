// The operators of the byte-level GPT on libtorch, which the model (model.cc) uses and calibration
// (calibrate/) measures, so that both run the same kernels. f32, on the CPU; gradients are
// libtorch's.
#pragma once

#include <ATen/ATen.h>

#include <cstdint>
#include <span>

namespace longhaul::trainer {

struct LayerNorm {
  at::Tensor weight;
  at::Tensor bias;

  at::Tensor operator()(const at::Tensor& x) const;
};

struct Linear {
  at::Tensor weight;
  at::Tensor bias;

  // On rows: [n, inputs] -> [n, outputs].
  at::Tensor operator()(const at::Tensor& x) const;
};

// [length, length]: -inf where the key comes after the query.
at::Tensor CausalMask(int64_t length);

// Attention: from queries, keys and values of `heads` heads of `batch` sequences, [batch * length,
// 3 * width], to the weighted values, [batch * length, width]. `qkv` is freed before the scores are
// allocated.
at::Tensor CoreAttention(at::Tensor qkv, const at::Tensor& mask, int64_t batch, int64_t length,
                         int64_t heads);

at::Tensor Activation(const at::Tensor& x);

// Token ids [batch, length] to [batch, length, hidden]: each token's own row, its position's, and
// those of the tokens before it from the tables `previous`.
at::Tensor Embed(const at::Tensor& ids, const at::Tensor& token, const at::Tensor& position,
                 std::span<const at::Tensor> previous);

// The sum of the embeddings of the tables' words from `first_word` on, which are on this rank,
// without the position. Its sum over the parts of the vocabulary is the whole except the position.
at::Tensor EmbedPart(const at::Tensor& ids, const at::Tensor& token,
                     std::span<const at::Tensor> previous, int64_t first_word);

// The loss summed over rows, in nats.
at::Tensor SummedCrossEntropy(const at::Tensor& logits, const at::Tensor& targets);

}  // namespace longhaul::trainer
