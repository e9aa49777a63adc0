#include "spec/model/parameters.h"

#include <algorithm>

namespace longhaul::spec {

namespace {

int64_t Int(uint32_t number) { return number; }

int64_t NormParameters(const Model& model) {
  return (model.normalization == Normalization::kRms ? 1 : 2) * Int(model.hidden);
}

// An FFN of width `width` with its biases; the last bias is added after the reduction.
// A gated FFN has two products side by side in front and one behind.
ParameterCount PlainFfn(const Model& model, int64_t width) {
  const int64_t inner = model.gated_ffn ? 2 : 1;
  ParameterCount count;
  count.sharded = (inner + 1) * Int(model.hidden) * width;
  if (model.bias) {
    count.sharded += inner * width;
    count.replicated += model.hidden;
  }
  return count;
}

// The low-rank products in front are whole on every tensor rank, each with its norm; the ones that
// produce heads are divided by heads.
ParameterCount LatentAttention(const Model& model) {
  const MultiLatent& latent = *model.multi_latent;
  const int64_t hidden = model.hidden;
  const int64_t heads = model.heads;
  const int64_t query = Int(latent.qk_nope_dim) + latent.qk_rope_dim;
  ParameterCount count;
  if (latent.query_rank > 0) {
    count.replicated += hidden * latent.query_rank + latent.query_rank;
    count.sharded += heads * query * latent.query_rank;
  } else {
    count.sharded += hidden * heads * query;
  }
  count.replicated += hidden * (Int(latent.kv_rank) + latent.qk_rope_dim) + latent.kv_rank;
  count.sharded += latent.kv_rank * heads * (Int(latent.qk_nope_dim) + latent.v_dim);
  count.sharded += heads * latent.v_dim * hidden;
  return count;
}

int64_t AttentionWidths(const Model& model) {  // d_qk + d_v
  if (!model.multi_latent) return 2 * Int(model.head_dim);
  const MultiLatent& latent = *model.multi_latent;
  return Int(latent.qk_nope_dim) + latent.qk_rope_dim + latent.v_dim;
}

// Both the scores and the weighted values are products over the sequence. With a causal mask a
// token attends to half of it on average; with a window it attends to `size` tokens, except at the
// start of the sequence.
double CoreAttention(const Model& model, bool window, AttentionCount count) {
  const double sequence = model.sequence_length;
  const double widths = static_cast<double>(model.heads * AttentionWidths(model));
  if (window && model.sliding_window->size < model.sequence_length) {
    const double size = model.sliding_window->size;
    return widths * (2 * size - size * size / sequence);
  }
  return widths * sequence * (count == AttentionCount::kFullSquare ? 2 : 1);
}

// Products of one layer that a token meets, biases and norms left out.
int64_t ActiveMatmuls(const Model& model, bool experts) {
  Model bare = model;
  bare.bias = bare.qkv_bias = bare.qk_norm = false;
  ParameterCount count = AttentionParameters(bare);
  if (bare.multi_latent)
    count.replicated -= Int(bare.multi_latent->query_rank) + bare.multi_latent->kv_rank;
  if (!experts) return count.total() + PlainFfn(bare, bare.ffn_hidden).total();
  const int64_t matrices = bare.gated_ffn ? 3 : 2;
  const Experts& e = *bare.experts;
  return count.total() + Int(bare.hidden) * e.count +
         matrices * bare.hidden *
             (Int(e.ffn_hidden) * e.top_k + Int(e.shared) * e.shared_ffn_hidden);
}

}  // namespace

ParameterCount& ParameterCount::operator+=(const ParameterCount& other) {
  sharded += other.sharded;
  replicated += other.replicated;
  experts += other.experts;
  return *this;
}

ParameterCount AttentionParameters(const Model& model) {
  if (model.multi_latent) return LatentAttention(model);
  const int64_t hidden = model.hidden;
  const int64_t dim = model.head_dim;
  const int64_t queries = dim * model.heads;
  const int64_t keys = dim * model.kv_heads;
  ParameterCount count;
  count.sharded = hidden * (2 * queries + 2 * keys);
  if (model.qkv_bias) count.sharded += queries + 2 * keys;
  if (model.bias) count.replicated += hidden;
  if (model.qk_norm) count.replicated += 2 * dim;
  return count;
}

ParameterCount FfnParameters(const Model& model, bool experts) {
  if (!experts) return PlainFfn(model, model.ffn_hidden);
  const Experts& e = *model.experts;
  ParameterCount count;
  if (e.shared > 0) count = PlainFfn(model, Int(e.shared) * e.shared_ffn_hidden);
  count.replicated += Int(model.hidden) * e.count + (e.router_bias ? Int(e.count) : 0);
  count.experts = e.count * PlainFfn(model, e.ffn_hidden).total();
  return count;
}

ParameterCount LayerParameters(const Model& model, bool experts) {
  ParameterCount count = AttentionParameters(model);
  count += FfnParameters(model, experts);
  count.replicated += 2 * NormParameters(model);
  return count;
}

ParameterCount EmbeddingParameters(const Model& model) {
  ParameterCount count;
  count.sharded = Int(model.vocabulary) * model.hidden;
  if (model.position == Position::kLearned) {
    count.replicated = Int(model.sequence_length) * model.hidden;
  }
  return count;
}

ParameterCount OutputParameters(const Model& model) {
  ParameterCount count;
  count.replicated = NormParameters(model);
  if (!model.tied_embeddings) count.sharded = Int(model.vocabulary) * model.hidden;
  return count;
}

ParameterCount PredictionLayerParameters(const Model& model) {
  ParameterCount count = LayerParameters(model, model.experts.has_value());
  // Megatron splits the joining product as any other.
  count.sharded += 2 * Int(model.hidden) * model.hidden;
  count.replicated += 3 * NormParameters(model);
  return count;
}

int64_t Parameters(const Model& model) {
  int64_t sum = EmbeddingParameters(model).total() + OutputParameters(model).total();
  const int64_t dense = LayerParameters(model, false).total();
  const int64_t sparse = model.experts ? LayerParameters(model, true).total() : 0;
  for (uint32_t i = 0; i < model.layers; ++i) sum += model.has_experts(i) ? sparse : dense;
  return sum + model.multi_token_prediction_layers * PredictionLayerParameters(model).total();
}

// The router reads all experts' columns, whichever experts it then selects.
int64_t ActiveParameters(const Model& model) {
  if (!model.experts) return Parameters(model);
  Model visited = model;  // only the experts that a token visits, but the whole router
  visited.experts->count = model.experts->top_k;
  const int64_t unseen = Int(model.experts->count) - model.experts->top_k;
  const int64_t router = Int(model.hidden) + (model.experts->router_bias ? 1 : 0);
  int64_t layers = model.multi_token_prediction_layers;
  for (uint32_t i = 0; i < model.layers; ++i) layers += model.has_experts(i) ? 1 : 0;
  return Parameters(visited) + layers * unseen * router;
}

ForwardFlops TokenForward(const Model& model, AttentionCount count) {
  const double dense = 2.0 * static_cast<double>(ActiveMatmuls(model, false));
  const double sparse = model.experts ? 2.0 * static_cast<double>(ActiveMatmuls(model, true)) : 0;
  const double output = 2.0 * model.hidden * model.vocabulary;
  ForwardFlops flops;
  flops.output = output;
  for (uint32_t i = 0; i < model.layers; ++i) {
    flops.products += model.has_experts(i) ? sparse : dense;
    flops.attention += CoreAttention(model, model.has_window(i), count);
  }
  const double extra = model.multi_token_prediction_layers;
  const double join = 4.0 * model.hidden * model.hidden;
  flops.products += extra * ((model.experts ? sparse : dense) + join);
  flops.attention += extra * CoreAttention(model, false, count);
  flops.output += extra * output;
  return flops;
}

// The backward pass computes two products for each one of the forward pass, which makes three in
// all.
Flops ModelStepFlops(const Model& model, uint64_t sequences, AttentionCount count) {
  const double tokens = static_cast<double>(sequences) * model.sequence_length;
  return Flops(3 * tokens * TokenForward(model, count).total());
}

// Each layer's forward pass is computed once more, the output's is not.
Flops FullRecomputeStepFlops(const Model& model, uint64_t sequences, AttentionCount count) {
  const double tokens = static_cast<double>(sequences) * model.sequence_length;
  const ForwardFlops forward = TokenForward(model, count);
  return Flops(tokens * (4 * (forward.products + forward.attention) + 3 * forward.output));
}

}  // namespace longhaul::spec
