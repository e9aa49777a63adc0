// A model's parameters and the work of a step: exact counts, before any parallel split.
//
// With h hidden, a heads, g key-value heads, d head size, f FFN, V vocabulary, s sequence, e the
// FFN of an expert, E experts of which a token visits k:
//   attention     h d (2a + 2g); multi-latent (DeepSeek-V2, arXiv 2405.04434, section 2.1)
//                 h r_q + r_q a (d_n + d_r) + h (r_kv + d_r) + r_kv a (d_n + d_v) + a d_v h and the
//                 norms of both latents
//   FFN           2 h f, gated 3 h f; experts h E for the router, 3 h e each (2 h e if not gated)
//   norms         h (RMS) or 2 h each: two a layer, one at the end
//   ends          V h for the embedding, V h for the output unless tied, s h learned positions
//   prediction    an extra layer, two norms and one more, and the product of 2h by h that joins the
//                 embedding (DeepSeek-V3, arXiv 2412.19437, section 2.2)
// A product of p parameters takes 2 p FLOPs a token. Core attention of a causal sequence takes
// s a (d_qk + d_v) a token, the half of the square that is kept; within a window w of s it takes
// a (d_qk + d_v) (2w - w^2 / s). The backward pass is twice the forward.
// Leaves out the FLOPs of norms, softmax, activations and the optimizer: below 1 % of the sum.
#pragma once

#include <cstdint>

#include "base/units.h"
#include "spec/model/model.h"

namespace longhaul::spec {

// Parameters, by how they are divided.
struct ParameterCount {
  int64_t sharded = 0;     // over tensor parallel ranks
  int64_t replicated = 0;  // on each of them: norms, routers, latent down-projections
  int64_t experts = 0;     // routed ones: over expert and expert_tensor ranks

  int64_t total() const { return sharded + replicated + experts; }
  ParameterCount& operator+=(const ParameterCount& other);
  friend bool operator==(const ParameterCount&, const ParameterCount&) = default;
};

// Requires a model that CheckModel accepts, as all below.
ParameterCount AttentionParameters(const Model& model);
ParameterCount FfnParameters(const Model& model, bool experts);
// Attention, FFN and two norms.
ParameterCount LayerParameters(const Model& model, bool experts);
ParameterCount EmbeddingParameters(const Model& model);  // with learned positions
// The last norm and the output matrix, which is counted with the embedding if tied.
ParameterCount OutputParameters(const Model& model);
ParameterCount PredictionLayerParameters(const Model& model);  // of one extra layer

int64_t Parameters(const Model& model);
// The parameters that one token uses: of the routed experts only top_k.
int64_t ActiveParameters(const Model& model);

// How papers count the work of attention: the half of the square that a causal mask keeps, or the
// whole square (Megatron-LM until 2024, Narayanan et al. SC 2021, MosaicML).
enum class AttentionCount { kCausalHalf, kFullSquare };

// Forward FLOPs of one token, by part.
struct ForwardFlops {
  double products = 0;   // of the layers
  double attention = 0;  // softmax(q k) v
  double output = 0;     // the vocabulary

  double total() const { return products + attention + output; }
};
ForwardFlops TokenForward(const Model& model, AttentionCount count = AttentionCount::kCausalHalf);

// Three forwards over `sequences` sequences: the definition of "model FLOPs".
Flops ModelStepFlops(const Model& model, uint64_t sequences,
                     AttentionCount count = AttentionCount::kCausalHalf);
// The same, with the layers' forward executed once more, as full recomputation does.
Flops FullRecomputeStepFlops(const Model& model, uint64_t sequences,
                             AttentionCount count = AttentionCount::kCausalHalf);

}  // namespace longhaul::spec
