// A transformer's shape: the sizes that determine its parameters, its work and its memory.
//
// The name is for people: no computation uses it. Sizes are those of the whole model, before any
// parallel split; the vocabulary is unpadded. Leaves out encoder-decoder models, vision towers and
// weights. Readers: model_reader.h (the project's YAML, Hugging Face's config.json, the shipped
// catalogue).
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "base/status.h"
#include "spec/job/job.h"

namespace longhaul::spec {

enum class Activation { kSilu, kGelu, kSquaredRelu };
enum class Normalization { kRms, kLayer };
enum class Position { kRope, kLearned, kAlibi };

// Every `every`-th layer attends to the last `size` tokens only; the others to all.
struct SlidingWindow {
  uint32_t size = 0;
  uint32_t every = 1;

  friend bool operator==(const SlidingWindow&, const SlidingWindow&) = default;
};

// Multi-head latent attention (DeepSeek-V2, arXiv 2405.04434, section 2.1).
struct MultiLatent {
  uint32_t query_rank = 0;  // 0: queries are not compressed
  uint32_t kv_rank = 0;
  uint32_t qk_nope_dim = 0;  // of a head, without position
  uint32_t qk_rope_dim = 0;  // of a head, rotary; shared by all heads' keys
  uint32_t v_dim = 0;

  friend bool operator==(const MultiLatent&, const MultiLatent&) = default;
};

struct Experts {
  uint32_t count = 0;
  uint32_t top_k = 0;
  uint32_t ffn_hidden = 0;         // of one routed expert
  uint32_t shared = 0;             // experts that process every token
  uint32_t shared_ffn_hidden = 0;  // of one of them
  uint32_t dense_first_layers = 0;
  uint32_t every = 1;  // 2: each second layer has experts, the others are dense
  std::optional<double> capacity_factor{};  // absent: tokens are never dropped
  bool balanced = false;                    // routing is forced to be even, as in benchmarks
  bool router_bias = false;                 // a correction for each router output (DeepSeek-V3)
  // Routing to few nodes (DeepSeek-V2, arXiv 2405.04434, section 2.2.2): experts in equal groups,
  // of which a token's lie in at most `groups_top_k`.
  uint32_t groups = 1;
  uint32_t groups_top_k = 1;

  friend bool operator==(const Experts&, const Experts&) = default;
};

struct Model {
  std::string name;
  uint32_t layers = 0;
  uint32_t hidden = 0;
  uint32_t ffn_hidden = 0;  // of a dense layer; 0 where there is none
  uint32_t heads = 0;
  uint32_t kv_heads = 0;
  uint32_t head_dim = 0;  // queries and keys, and values where not multi-latent
  uint32_t vocabulary = 0;
  uint32_t sequence_length = 0;
  bool gated_ffn = false;  // three matrices instead of two
  Activation activation = Activation::kGelu;
  Normalization normalization = Normalization::kLayer;
  Position position = Position::kLearned;
  bool tied_embeddings = false;
  bool bias = false;      // on the output projection and the FFN's products
  bool qkv_bias = false;  // on queries, keys and values
  bool dropout = false;
  std::optional<SlidingWindow> sliding_window{};
  std::optional<MultiLatent> multi_latent{};
  std::optional<Experts> experts{};
  uint32_t multi_token_prediction_layers = 0;
  bool qk_norm = false;  // queries and keys of a head are normalised (Qwen3)

  // Whether layer `index` (0 is the first) has experts in place of a dense FFN.
  bool has_experts(uint32_t index) const {
    return experts && index >= experts->dense_first_layers &&
           (index - experts->dense_first_layers) % experts->every == experts->every - 1;
  }
  // Whether layer `index` attends within its sliding window only.
  bool has_window(uint32_t index) const {
    return sliding_window && index % sliding_window->every == sliding_window->every - 1;
  }

  friend bool operator==(const Model&, const Model&) = default;
};

// Rejects sizes of zero, sizes beyond any model (layers 10,000, hidden 2^20, experts 65,536, ...)
// and contradictions: kv_heads that do not divide heads, more experts for a token than exist. The
// message has one line for each mistake.
Status CheckModel(const Model& model);

// The built-in GPT (spec/job/job.h) as a shape.
Model FromBuiltIn(const ModelSpec& model);

}  // namespace longhaul::spec
