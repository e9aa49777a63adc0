#include "training/hugging_face/tensors.h"

#include <array>
#include <span>
#include <utility>

#include "base/check.h"
#include "base/text.h"

namespace longhaul::training {
namespace {

// Names without their ".weight" or ".bias"; "#" is the number of a layer, "@" of an expert.
struct Row {
  std::string_view ours;
  std::string_view theirs;
  bool transposed = false;
  int fused = -1;  // 0 to 2: the queries, keys or values of a fused tensor
};

constexpr auto kLlamaRows = std::to_array<Row>({
    {"model.embedding.token", "model.embed_tokens"},
    {"model.layers.#.attention.norm", "model.layers.#.input_layernorm"},
    {"model.layers.#.attention.query", "model.layers.#.self_attn.q_proj"},
    {"model.layers.#.attention.key", "model.layers.#.self_attn.k_proj"},
    {"model.layers.#.attention.value", "model.layers.#.self_attn.v_proj"},
    {"model.layers.#.attention.query_norm", "model.layers.#.self_attn.q_norm"},
    {"model.layers.#.attention.key_norm", "model.layers.#.self_attn.k_norm"},
    {"model.layers.#.attention.output", "model.layers.#.self_attn.o_proj"},
    {"model.layers.#.mlp.norm", "model.layers.#.post_attention_layernorm"},
    {"model.layers.#.mlp.gate", "model.layers.#.mlp.gate_proj"},
    {"model.layers.#.mlp.up", "model.layers.#.mlp.up_proj"},
    {"model.layers.#.mlp.down", "model.layers.#.mlp.down_proj"},
    {"model.norm", "model.norm"},
    {"model.output", "lm_head"},
});

constexpr auto kMixtralRows = std::to_array<Row>({
    {"model.layers.#.router", "model.layers.#.block_sparse_moe.gate"},
    {"model.layers.#.experts.gate", "model.layers.#.block_sparse_moe.experts.@.w1"},
    {"model.layers.#.experts.up", "model.layers.#.block_sparse_moe.experts.@.w3"},
    {"model.layers.#.experts.down", "model.layers.#.block_sparse_moe.experts.@.w2"},
});

constexpr auto kQwenRows = std::to_array<Row>({
    {"model.layers.#.router", "model.layers.#.mlp.gate"},
    {"model.layers.#.experts.gate", "model.layers.#.mlp.experts.@.gate_proj"},
    {"model.layers.#.experts.up", "model.layers.#.mlp.experts.@.up_proj"},
    {"model.layers.#.experts.down", "model.layers.#.mlp.experts.@.down_proj"},
});

constexpr auto kGpt2Rows = std::to_array<Row>({
    {"model.embedding.token", "transformer.wte"},
    {"model.embedding.position", "transformer.wpe"},
    {"model.layers.#.attention.norm", "transformer.h.#.ln_1"},
    {"model.layers.#.attention.query", "transformer.h.#.attn.c_attn", true, 0},
    {"model.layers.#.attention.key", "transformer.h.#.attn.c_attn", true, 1},
    {"model.layers.#.attention.value", "transformer.h.#.attn.c_attn", true, 2},
    {"model.layers.#.attention.output", "transformer.h.#.attn.c_proj", true},
    {"model.layers.#.mlp.norm", "transformer.h.#.ln_2"},
    {"model.layers.#.mlp.up", "transformer.h.#.mlp.c_fc", true},
    {"model.layers.#.mlp.down", "transformer.h.#.mlp.c_proj", true},
    {"model.norm", "transformer.ln_f"},
    {"model.output", "lm_head"},
});

const Row& FindRow(Family family, std::string_view stem) {
  std::array<std::span<const Row>, 2> tables = {kLlamaRows, {}};
  if (family == Family::kGpt2) tables[0] = kGpt2Rows;
  if (family == Family::kMixtral) tables[1] = kMixtralRows;
  if (family == Family::kQwen3Moe) tables[1] = kQwenRows;
  for (const std::span<const Row> table : tables) {
    for (const Row& row : table) {
      if (row.ours == stem) return row;
    }
  }
  CHECK(false) << "no tensor for " << stem;
  return kLlamaRows.front();
}

std::string Replace(std::string text, char from, const std::string& to) {
  const size_t at = text.find(from);
  return at == std::string::npos ? text : text.replace(at, 1, to);
}

}  // namespace

std::vector<Piece> PiecesOf(const ModelConfig& model, Family family, const Parameter& parameter) {
  std::string stem = parameter.name;
  const size_t dot = stem.rfind('.');
  const std::string ending = stem.substr(dot);
  stem.resize(dot);
  const std::string layer = std::to_string(parameter.layer);
  const std::string in_layer = "model.layers." + layer + ".";
  if (stem.starts_with(in_layer)) stem = "model.layers.#." + stem.substr(in_layer.size());
  const Row& row = FindRow(family, stem);
  Piece piece;
  piece.tensor = Replace(std::string(row.theirs), '#', layer) + ending;
  piece.shape = parameter.whole;
  if (row.fused >= 0) {
    const spec::Model& shape = model.shape;
    const int64_t queries = int64_t{shape.heads} * shape.head_dim;
    const int64_t keys = int64_t{shape.kv_heads} * shape.head_dim;
    piece.row = row.fused == 0 ? 0 : queries + (row.fused - 1) * keys;
    piece.shape[0] = queries + 2 * keys;
  }
  if (row.transposed && piece.shape.size() == 2) {
    piece.transposed = true;
    std::swap(piece.shape[0], piece.shape[1]);
  }
  if (!parameter.expert) return {piece};
  piece.shape.erase(piece.shape.begin());
  std::vector<Piece> pieces;
  for (int64_t expert = 0; expert < parameter.whole[0]; ++expert) {
    pieces.push_back(piece);
    pieces.back().tensor = Replace(piece.tensor, '@', std::to_string(expert));
    pieces.back().expert = expert;
  }
  return pieces;
}

std::vector<Parameter> AllParameters(const ModelConfig& model, const Layout& layout,
                                     const Place& place) {
  std::vector<Parameter> all = ParametersOf(model, layout, place, kEmbedding);
  const auto append = [&](int32_t layer) {
    for (Parameter& parameter : ParametersOf(model, layout, place, layer)) {
      if (layer == kOutput && parameter.tied) continue;
      all.push_back(std::move(parameter));
    }
  };
  for (uint32_t layer = 0; layer < model.shape.layers; ++layer) {
    append(static_cast<int32_t>(layer));
  }
  append(kOutput);
  return all;
}

std::string CanonicalName(Family family, std::string_view name) {
  const bool bare =
      family == Family::kGpt2 && !name.starts_with("transformer.") && !name.starts_with("lm_head.");
  return (bare ? "transformer." : "") + std::string(name);
}

bool IsConstant(Family family, std::string_view name) {
  if (family != Family::kGpt2) return name.ends_with(".rotary_emb.inv_freq");
  return name.ends_with(".attn.bias") || name.ends_with(".attn.masked_bias");
}

}  // namespace longhaul::training
