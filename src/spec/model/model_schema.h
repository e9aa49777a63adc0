// Every key of a model with its limits, in one place: the YAML reader and writer (model_reader.h),
// the planner's case interface and the reference page docs/model-file.md use this list.
//
// A visitor has one function for each kind of value:
//   Text(key, value, most_bytes)
//   Whole(key, value, min, max)       a whole number
//   Flag(key, value)                  true or false
//   Real(key, value, above, most)     an optional number, above `above` and at most `most`
//   Word(key, value, words)           one of `words`
//   Section(key, value, body)         an optional map; `body(member)` visits its keys
#pragma once

#include <array>
#include <cstdint>
#include <string_view>
#include <utility>

#include "spec/model/model.h"

namespace longhaul::spec {

template <typename T, size_t N>
using Words = std::array<std::pair<std::string_view, T>, N>;

constexpr Words<Activation, 3> kActivationWords = {{{"silu", Activation::kSilu},
                                                    {"gelu", Activation::kGelu},
                                                    {"squared_relu", Activation::kSquaredRelu}}};
constexpr Words<Normalization, 2> kNormalizations = {
    {{"rms", Normalization::kRms}, {"layer", Normalization::kLayer}}};
constexpr Words<Position, 3> kPositions = {
    {{"rope", Position::kRope}, {"learned", Position::kLearned}, {"alibi", Position::kAlibi}}};

// Limits far beyond any published model, so that products of three of them fit 63 bits.
constexpr uint64_t kMaxModelLayers = 10'000;
constexpr uint64_t kMaxModelHidden = uint64_t{1} << 20;
constexpr uint64_t kMaxModelFfn = uint64_t{1} << 23;
constexpr uint64_t kMaxModelHeads = 65'536;
constexpr uint64_t kMaxModelVocabulary = uint64_t{1} << 24;
constexpr uint64_t kMaxModelSequence = uint64_t{1} << 27;
constexpr uint64_t kMaxModelExperts = 65'536;

template <typename Visitor, typename M>
void VisitModel(Visitor& v, M& model) {
  v.Text("name", model.name, 200);
  v.Whole("layers", model.layers, 1, kMaxModelLayers);
  v.Whole("hidden", model.hidden, 1, kMaxModelHidden);
  v.Whole("ffn_hidden", model.ffn_hidden, 0, kMaxModelFfn);
  v.Whole("heads", model.heads, 1, kMaxModelHeads);
  v.Whole("kv_heads", model.kv_heads, 1, kMaxModelHeads);
  v.Whole("head_dim", model.head_dim, 1, kMaxModelHeads);
  v.Whole("vocabulary", model.vocabulary, 1, kMaxModelVocabulary);
  v.Whole("sequence_length", model.sequence_length, 1, kMaxModelSequence);
  v.Flag("gated_ffn", model.gated_ffn);
  v.Word("activation", model.activation, kActivationWords);
  v.Word("normalization", model.normalization, kNormalizations);
  v.Word("position", model.position, kPositions);
  v.Flag("tied_embeddings", model.tied_embeddings);
  v.Flag("bias", model.bias);
  v.Flag("qkv_bias", model.qkv_bias);
  v.Flag("qk_norm", model.qk_norm);
  v.Flag("dropout", model.dropout);
  v.Section("sliding_window", model.sliding_window, [&v](auto& window) {
    v.Whole("size", window.size, 1, kMaxModelSequence);
    v.Whole("every", window.every, 1, kMaxModelLayers);
  });
  v.Section("multi_latent", model.multi_latent, [&v](auto& latent) {
    v.Whole("query_rank", latent.query_rank, 0, kMaxModelHidden);
    v.Whole("kv_rank", latent.kv_rank, 1, kMaxModelHidden);
    v.Whole("qk_nope_dim", latent.qk_nope_dim, 1, kMaxModelHeads);
    v.Whole("qk_rope_dim", latent.qk_rope_dim, 0, kMaxModelHeads);
    v.Whole("v_dim", latent.v_dim, 1, kMaxModelHeads);
  });
  v.Section("experts", model.experts, [&v](auto& experts) {
    v.Whole("count", experts.count, 1, kMaxModelExperts);
    v.Whole("top_k", experts.top_k, 1, kMaxModelExperts);
    v.Whole("ffn_hidden", experts.ffn_hidden, 1, kMaxModelFfn);
    v.Whole("shared", experts.shared, 0, 1'024);
    v.Whole("shared_ffn_hidden", experts.shared_ffn_hidden, 0, kMaxModelFfn);
    v.Whole("dense_first_layers", experts.dense_first_layers, 0, kMaxModelLayers);
    v.Whole("every", experts.every, 1, kMaxModelLayers);
    v.Real("capacity_factor", experts.capacity_factor, 0, 1'000);
    v.Flag("balanced", experts.balanced);
    v.Flag("router_bias", experts.router_bias);
    v.Whole("groups", experts.groups, 1, kMaxModelExperts);
    v.Whole("groups_top_k", experts.groups_top_k, 1, kMaxModelExperts);
  });
  v.Whole("multi_token_prediction_layers", model.multi_token_prediction_layers, 0, 64);
}

}  // namespace longhaul::spec
