// Tensor and sequence parallelism: what a layer whose matrices are divided over a group needs
// besides its own products.
//
// Tensor (Shoeybi et al., Megatron-LM, 2019): the tokens are whole on each part.
//   enter:  forward identity, backward sum of the gradients over the group
//   leave:  forward sum over the group, backward identity
// Sequence (Korthikanti et al., Reducing Activation Recomputation, 2022): between the two the
// tokens are divided, so that each sum becomes its two halves.
//   enter:  forward all-gather of the tokens, backward reduce-scatter
//   leave:  forward reduce-scatter, backward all-gather
// The words of the vocabulary are divided, and the logits are never gathered:
//   loss:   m = max over words, s = sum over words of exp(z - m), both over the group;
//           loss = sum over tokens of mask * (log s + m - z[target]);
//           gradient mask * (softmax(z) - onehot(target)) on the words that are here
#pragma once

#include <ATen/ATen.h>

#include "training/dimensions/rank.h"

namespace longhaul::training {

// Activations are [tokens, batch, width].
at::Tensor EnterTensor(const at::Tensor& x, RankContext& rank);
at::Tensor LeaveTensor(const at::Tensor& x, RankContext& rank);

// A product whose matrix is divided by inputs: the bias is added once, after the sum.
at::Tensor MultiplyAndLeave(const at::Tensor& x, const WeightSet& weights, const std::string& name,
                            RankContext& rank);

// The embeddings of `tokens` [tokens, batch]; with positions, if the model has learned ones.
at::Tensor EmbedTokens(const at::Tensor& tokens, const WeightSet& weights, RankContext& rank);

// The loss, in nats, summed over tokens where `mask` is not 0, the same on every part. `logits` are
// [tokens, batch, words here], `targets` and `mask` [tokens, batch].
at::Tensor SummedVocabularyLoss(const at::Tensor& logits, const at::Tensor& targets,
                                const at::Tensor& mask, RankContext& rank);

}  // namespace longhaul::training
