// The shipped models: shapes as published with the weights (the models' config.json) or in their
// papers: GPT-3 arXiv 2005.14165 table 2.1, Nemotron-4 arXiv 2402.16819 and 2406.11704, BLOOM arXiv
// 2211.05100. GPT-OSS without its learnt sinks. Sequence lengths are those of the main part of
// pre-training.
#include <algorithm>
#include <array>

#include "base/text.h"
#include "spec/model/model_reader.h"

namespace longhaul::spec {

namespace {

enum class Style {
  kGpt,       // GPT-2 and 3: learned positions, layer norms, biases, tied
  kLlama,     // RMS, rotary, gated
  kQwen2,     // Llama with biases on queries, keys and values
  kQwen3,     // Llama with norms on queries and keys
  kNemotron,  // layer norms, rotary, squared ReLU
  kBloom,     // GPT with ALiBi
  kGptOss,    // Llama with biases, and every second layer within a window of 128
};

struct ModelRow {
  std::string_view name;
  Style style;
  uint32_t layers;
  uint32_t hidden;
  uint32_t ffn;
  uint32_t heads;
  uint32_t kv_heads;
  uint32_t head_dim;
  uint32_t vocabulary;
  uint32_t sequence;
  bool tied = false;
};

constexpr auto kDense = std::to_array<ModelRow>({
    {"bloom-176b", Style::kBloom, 70, 14'336, 57'344, 112, 112, 128, 250'880, 2'048, true},
    {"gpt2", Style::kGpt, 12, 768, 3'072, 12, 12, 64, 50'257, 1'024, true},
    {"gpt2-large", Style::kGpt, 36, 1'280, 5'120, 20, 20, 64, 50'257, 1'024, true},
    {"gpt2-medium", Style::kGpt, 24, 1'024, 4'096, 16, 16, 64, 50'257, 1'024, true},
    {"gpt2-xl", Style::kGpt, 48, 1'600, 6'400, 25, 25, 64, 50'257, 1'024, true},
    {"gpt3-1.3b", Style::kGpt, 24, 2'048, 8'192, 16, 16, 128, 50'257, 2'048, true},
    {"gpt3-125m", Style::kGpt, 12, 768, 3'072, 12, 12, 64, 50'257, 2'048, true},
    {"gpt3-13b", Style::kGpt, 40, 5'120, 20'480, 40, 40, 128, 50'257, 2'048, true},
    {"gpt3-175b", Style::kGpt, 96, 12'288, 49'152, 96, 96, 128, 50'257, 2'048, true},
    {"gpt3-2.7b", Style::kGpt, 32, 2'560, 10'240, 32, 32, 80, 50'257, 2'048, true},
    {"gpt3-350m", Style::kGpt, 24, 1'024, 4'096, 16, 16, 64, 50'257, 2'048, true},
    {"gpt3-6.7b", Style::kGpt, 32, 4'096, 16'384, 32, 32, 128, 50'257, 2'048, true},
    {"gpt3-760m", Style::kGpt, 24, 1'536, 6'144, 16, 16, 96, 50'257, 2'048, true},
    {"llama-2-13b", Style::kLlama, 40, 5'120, 13'824, 40, 40, 128, 32'000, 4'096},
    {"llama-2-70b", Style::kLlama, 80, 8'192, 28'672, 64, 8, 128, 32'000, 4'096},
    {"llama-2-7b", Style::kLlama, 32, 4'096, 11'008, 32, 32, 128, 32'000, 4'096},
    {"llama-3-70b", Style::kLlama, 80, 8'192, 28'672, 64, 8, 128, 128'256, 8'192},
    {"llama-3-8b", Style::kLlama, 32, 4'096, 14'336, 32, 8, 128, 128'256, 8'192},
    {"llama-3.1-405b", Style::kLlama, 126, 16'384, 53'248, 128, 8, 128, 128'256, 8'192},
    {"llama-3.1-70b", Style::kLlama, 80, 8'192, 28'672, 64, 8, 128, 128'256, 8'192},
    {"llama-3.1-8b", Style::kLlama, 32, 4'096, 14'336, 32, 8, 128, 128'256, 8'192},
    {"llama-3.2-1b", Style::kLlama, 16, 2'048, 8'192, 32, 8, 64, 128'256, 8'192, true},
    {"llama-3.2-3b", Style::kLlama, 28, 3'072, 8'192, 24, 8, 128, 128'256, 8'192, true},
    {"mistral-7b", Style::kLlama, 32, 4'096, 14'336, 32, 8, 128, 32'000, 8'192},
    {"nemotron-4-15b", Style::kNemotron, 32, 6'144, 24'576, 48, 8, 128, 256'000, 4'096},
    {"nemotron-4-340b", Style::kNemotron, 96, 18'432, 73'728, 96, 8, 192, 256'000, 4'096},
    {"qwen2.5-0.5b", Style::kQwen2, 24, 896, 4'864, 14, 2, 64, 151'936, 4'096, true},
    {"qwen2.5-1.5b", Style::kQwen2, 28, 1'536, 8'960, 12, 2, 128, 151'936, 4'096, true},
    {"qwen2.5-14b", Style::kQwen2, 48, 5'120, 13'824, 40, 8, 128, 152'064, 4'096},
    {"qwen2.5-32b", Style::kQwen2, 64, 5'120, 27'648, 40, 8, 128, 152'064, 4'096},
    {"qwen2.5-3b", Style::kQwen2, 36, 2'048, 11'008, 16, 2, 128, 151'936, 4'096, true},
    {"qwen2.5-72b", Style::kQwen2, 80, 8'192, 29'568, 64, 8, 128, 152'064, 4'096},
    {"qwen2.5-7b", Style::kQwen2, 28, 3'584, 18'944, 28, 4, 128, 152'064, 4'096},
    {"qwen3-0.6b", Style::kQwen3, 28, 1'024, 3'072, 16, 8, 128, 151'936, 4'096, true},
    {"qwen3-1.7b", Style::kQwen3, 28, 2'048, 6'144, 16, 8, 128, 151'936, 4'096, true},
    {"qwen3-14b", Style::kQwen3, 40, 5'120, 17'408, 40, 8, 128, 151'936, 4'096},
    {"qwen3-32b", Style::kQwen3, 64, 5'120, 25'600, 64, 8, 128, 151'936, 4'096},
    {"qwen3-4b", Style::kQwen3, 36, 2'560, 9'728, 32, 8, 128, 151'936, 4'096, true},
    {"qwen3-8b", Style::kQwen3, 36, 4'096, 12'288, 32, 8, 128, 151'936, 4'096},
    // With experts: their shape is added by name below.
    {"deepseek-v2", Style::kLlama, 60, 5'120, 12'288, 128, 128, 128, 102'400, 4'096},
    {"deepseek-v2-lite", Style::kLlama, 27, 2'048, 10'944, 16, 16, 128, 102'400, 4'096},
    {"deepseek-v3", Style::kLlama, 61, 7'168, 18'432, 128, 128, 128, 129'280, 4'096},
    {"gpt-oss-120b", Style::kGptOss, 36, 2'880, 0, 64, 8, 64, 201'088, 4'096},
    {"gpt-oss-20b", Style::kGptOss, 24, 2'880, 0, 64, 8, 64, 201'088, 4'096},
    {"grok-1", Style::kLlama, 64, 6'144, 0, 48, 8, 128, 131'072, 8'192, true},
    {"kimi-k2", Style::kLlama, 61, 7'168, 18'432, 64, 64, 128, 163'840, 4'096},
    {"llama-4-maverick", Style::kLlama, 48, 5'120, 16'384, 40, 8, 128, 202'048, 8'192},
    {"llama-4-scout", Style::kLlama, 48, 5'120, 0, 40, 8, 128, 202'048, 8'192},
    {"mixtral-8x22b", Style::kLlama, 56, 6'144, 0, 48, 8, 128, 32'000, 4'096},
    {"mixtral-8x7b", Style::kLlama, 32, 4'096, 0, 32, 8, 128, 32'000, 4'096},
    {"qwen3-235b-a22b", Style::kQwen3, 94, 4'096, 12'288, 64, 4, 128, 151'936, 4'096},
    {"qwen3-30b-a3b", Style::kQwen3, 48, 2'048, 6'144, 32, 4, 128, 151'936, 4'096},
});

struct ExpertRow {
  std::string_view name;
  Experts experts;
  uint32_t query_rank = 0;  // of multi-latent attention
  bool latent = false;
  uint32_t prediction_layers = 0;
};

constexpr auto kExperts = std::to_array<ExpertRow>({
    {"deepseek-v2", {160, 6, 1'536, 2, 1'536, 1, 1, {}, false, false, 8, 3}, 1'536, true},
    {"deepseek-v2-lite", {64, 6, 1'408, 2, 1'408, 1}, 0, true},
    {"deepseek-v3", {256, 8, 2'048, 1, 2'048, 3, 1, {}, false, true, 8, 4}, 1'536, true, 1},
    {"gpt-oss-120b", {128, 4, 2'880}},
    {"gpt-oss-20b", {32, 4, 2'880}},
    {"grok-1", {8, 2, 32'768}},
    {"kimi-k2", {384, 8, 2'048, 1, 2'048, 1, 1, {}, false, true}, 1'536, true},
    {"llama-4-maverick", {128, 1, 8'192, 1, 8'192, 0, 2}},
    {"llama-4-scout", {16, 1, 8'192, 1, 8'192}},
    {"mixtral-8x22b", {8, 2, 16'384}},
    {"mixtral-8x7b", {8, 2, 14'336}},
    {"qwen3-235b-a22b", {128, 8, 1'536}},
    {"qwen3-30b-a3b", {128, 8, 768}},
});

void ApplyStyle(Style style, Model& model) {
  const bool gpt = style == Style::kGpt || style == Style::kBloom;
  model.bias = gpt || style == Style::kGptOss;
  model.qkv_bias = model.bias || style == Style::kQwen2;
  model.qk_norm = style == Style::kQwen3;
  model.position = style == Style::kGpt     ? Position::kLearned
                   : style == Style::kBloom ? Position::kAlibi
                                            : Position::kRope;
  const bool layer_norm = gpt || style == Style::kNemotron;
  model.normalization = layer_norm ? Normalization::kLayer : Normalization::kRms;
  model.gated_ffn = !layer_norm;
  model.activation = gpt                         ? Activation::kGelu
                     : style == Style::kNemotron ? Activation::kSquaredRelu
                                                 : Activation::kSilu;
}

Model ToModel(const ModelRow& row) {
  Model model;
  model.name = row.name;
  model.layers = row.layers;
  model.hidden = row.hidden;
  model.ffn_hidden = row.ffn;
  model.heads = row.heads;
  model.kv_heads = row.kv_heads;
  model.head_dim = row.head_dim;
  model.vocabulary = row.vocabulary;
  model.sequence_length = row.sequence;
  model.tied_embeddings = row.tied;
  ApplyStyle(row.style, model);
  if (row.style == Style::kGptOss) model.sliding_window = SlidingWindow{128, 2};
  if (row.name == "grok-1") model.activation = Activation::kGelu;
  if (row.name == "mistral-7b") model.sliding_window = SlidingWindow{4'096, 1};
  for (const ExpertRow& sparse : kExperts) {
    if (sparse.name != row.name) continue;
    model.experts = sparse.experts;
    model.multi_token_prediction_layers = sparse.prediction_layers;
    // The widths other than the rank of the queries are the same in all models of the list.
    if (sparse.latent) model.multi_latent = MultiLatent{sparse.query_rank, 512, 128, 64, 128};
  }
  return model;
}

}  // namespace

Result<Model> FindModel(std::string_view name) {
  std::vector<std::string_view> known;
  for (const ModelRow& row : kDense) {
    if (row.name == name) return ToModel(row);
    known.push_back(row.name);
  }
  std::string why = "no model is called '" + Printable(name, 60) + "'";
  if (const auto nearest = Nearest(name, known)) {
    why += ", did you mean '" + std::string(*nearest) + "'";
  }
  return NotFound(why + "; known: " + Join(ModelNames(), ", "));
}

namespace {

// Letters and digits alone, without the organisation and the words for the tuning of the weights.
std::string Bare(std::string_view name) {
  name = name.substr(name.rfind('/') == std::string_view::npos ? 0 : name.rfind('/') + 1);
  std::string bare;
  for (const char c : name) {
    if (c >= 'A' && c <= 'Z') bare += static_cast<char>(c - 'A' + 'a');
    if ((c >= 'a' && c <= 'z') || (c >= '0' && c <= '9')) bare += c;
  }
  for (const std::string_view word : {"meta", "instruct", "base", "chat", "hf"}) {
    const size_t at = bare.find(word);
    if (at != std::string::npos && bare.size() > word.size()) bare.erase(at, word.size());
  }
  return bare;
}

}  // namespace

Result<Model> FindSpelled(std::string_view name) {
  const std::string wanted = Bare(name);
  for (const ModelRow& row : kDense) {
    if (!wanted.empty() && Bare(row.name) == wanted) return ToModel(row);
  }
  return FindModel(name);  // its error names the nearest ones
}

std::optional<Model> FindByExperts(const Model& model) {
  if (!model.experts) return std::nullopt;
  const Experts& wanted = *model.experts;
  for (const ModelRow& row : kDense) {
    const Model shipped = ToModel(row);
    if (!shipped.experts || shipped.hidden != model.hidden) continue;
    const Experts& experts = *shipped.experts;
    if (experts.count == wanted.count && experts.top_k == wanted.top_k &&
        experts.ffn_hidden == wanted.ffn_hidden && shipped.multi_latent == model.multi_latent) {
      return shipped;
    }
  }
  return std::nullopt;
}

std::vector<std::string> ModelNames() {
  std::vector<std::string> names;
  for (const ModelRow& row : kDense) names.emplace_back(row.name);
  std::sort(names.begin(), names.end());
  return names;
}

}  // namespace longhaul::spec
