// Keys are those of the configuration classes in Hugging Face transformers 4.40 to 4.56
// (src/transformers/models/*/configuration_*.py), with the defaults of those classes for the few
// that published files leave out.
#include <algorithm>
#include <array>
#include <utility>

#include "base/text.h"
#include "spec/internal/mistakes.h"
#include "spec/model/model_document.h"
#include "spec/model/model_schema.h"

namespace longhaul::spec::internal {

namespace {

// The figures of a config.json, by key; collects what is wrong.
// Mistakes are collected, so that one run reports all of them.
class Config {
 public:
  Config(const Node& root, std::string_view source) : root_(root), source_(source) {}

  // A whole number from 0 to `most`; absent or null: `standard`, or a mistake if there is none.
  uint32_t Whole(std::string_view key, uint64_t most, std::optional<uint32_t> standard = {}) {
    const Node* node = Value(key);
    if (node == nullptr) {
      if (!standard) mistakes_.Add(source_ + ": " + std::string(key) + ": is missing");
      return standard.value_or(0);
    }
    const Result<uint64_t> number = ParseUint64(node->text);
    if (node->kind != Node::Kind::kScalar || node->quoted || !number.ok() || *number > most) {
      Refuse(*node, key, "must be a whole number, 0 to " + Mistakes::Number(most));
      return standard.value_or(0);
    }
    return static_cast<uint32_t>(*number);
  }

  bool Flag(std::string_view key, bool standard) {
    const Node* node = Value(key);
    if (node == nullptr) return standard;
    if (node->text != "true" && node->text != "false") Refuse(*node, key, "must be true or false");
    return node->text == "true";
  }

  double Real(std::string_view key, double standard) {
    const Node* node = Value(key);
    if (node == nullptr) return standard;
    const Result<double> number = ParseDouble(node->text);
    if (!number.ok()) Refuse(*node, key, "must be a number");
    return number.ok() ? *number : standard;
  }

  std::string Text(std::string_view key) {
    const Node* node = Value(key);
    return node == nullptr || node->kind != Node::Kind::kScalar ? "" : node->text;
  }

  // A list of whole numbers; empty where absent.
  std::vector<uint32_t> Wholes(std::string_view key) {
    std::vector<uint32_t> numbers;
    const Node* node = Value(key);
    if (node == nullptr) return numbers;
    for (const Node& item : node->children) {
      const Result<uint64_t> number = ParseUint64(item.text);
      if (number.ok() && *number <= kMaxModelLayers) {
        numbers.push_back(static_cast<uint32_t>(*number));
      } else {
        Refuse(item, key, "must list layers");
      }
    }
    return numbers;
  }

  void Refuse(const Node& node, std::string_view key, const std::string& why) {
    mistakes_.Add(source_ + ":" + std::to_string(node.line) + ": " + std::string(key) + ": " + why);
  }
  void Refuse(std::string_view key, const std::string& why) {
    mistakes_.Add(source_ + ": " + std::string(key) + ": " + why);
  }
  Status Finish() && { return std::move(mistakes_).Finish(); }

 private:
  const Node* Value(std::string_view key) const {
    const Node* node = Find(root_, key);
    return node == nullptr || node->kind == Node::Kind::kNull ? nullptr : node;
  }

  const Node& root_;
  const std::string source_;
  Mistakes mistakes_;
};

void ReadActivation(Config& config, std::string_view key, Model& model) {
  const std::string name = config.Text(key);
  if (name.empty() || name == "silu" || name == "swish") {
    model.activation = Activation::kSilu;
  } else if (name.starts_with("gelu")) {
    model.activation = Activation::kGelu;
  } else if (name == "relu2") {
    model.activation = Activation::kSquaredRelu;
  } else {
    config.Refuse(key, "'" + Printable(name, 40) + "' is not known: silu, gelu or relu2");
  }
}

// What Llama's descendants share: RMS norms, rotary positions, a gated FFN.
void ReadLlama(Config& config, Model& model) {
  model.layers = config.Whole("num_hidden_layers", kMaxModelLayers);
  model.hidden = config.Whole("hidden_size", kMaxModelHidden);
  model.ffn_hidden = config.Whole("intermediate_size", kMaxModelFfn);
  model.heads = config.Whole("num_attention_heads", kMaxModelHeads);
  model.kv_heads = config.Whole("num_key_value_heads", kMaxModelHeads, model.heads);
  const uint32_t dim = model.heads > 0 ? model.hidden / model.heads : 0;
  model.head_dim = config.Whole("head_dim", kMaxModelHeads, dim);
  model.vocabulary = config.Whole("vocab_size", kMaxModelVocabulary);
  model.sequence_length = config.Whole("max_position_embeddings", kMaxModelSequence);
  model.tied_embeddings = config.Flag("tie_word_embeddings", false);
  model.gated_ffn = true;
  ReadActivation(config, "hidden_act", model);
  model.normalization = Normalization::kRms;
  model.position = Position::kRope;
  model.dropout = config.Real("attention_dropout", 0) > 0;
}

void ReadPlainLlama(Config& config, Model& model) {
  ReadLlama(config, model);
  model.qkv_bias = config.Flag("attention_bias", false);
  model.bias = config.Flag("mlp_bias", false) || model.qkv_bias;
}

// A window that covers the whole sequence is none.
void ReadWindow(Config& config, bool used, Model& model) {
  const uint32_t size = config.Whole("sliding_window", kMaxModelSequence, 0);
  if (used && size > 0 && size < model.sequence_length)
    model.sliding_window = SlidingWindow{size, 1};
}

void ReadMistral(Config& config, Model& model) {
  ReadLlama(config, model);
  ReadWindow(config, true, model);
}

void ReadMixtral(Config& config, Model& model) {
  ReadMistral(config, model);
  Experts experts;
  experts.count = config.Whole("num_local_experts", kMaxModelExperts);
  experts.top_k = config.Whole("num_experts_per_tok", kMaxModelExperts);
  experts.ffn_hidden = std::exchange(model.ffn_hidden, 0);
  model.experts = experts;
}

void ReadGpt2(Config& config, Model& model) {
  model.layers = config.Whole("n_layer", kMaxModelLayers);
  model.hidden = config.Whole("n_embd", kMaxModelHidden);
  model.ffn_hidden = config.Whole("n_inner", kMaxModelFfn, 4 * model.hidden);
  model.heads = config.Whole("n_head", kMaxModelHeads);
  model.kv_heads = model.heads;
  model.head_dim = model.heads > 0 ? model.hidden / model.heads : 0;
  model.vocabulary = config.Whole("vocab_size", kMaxModelVocabulary);
  model.sequence_length = config.Whole("n_positions", kMaxModelSequence, 1'024);
  model.tied_embeddings = config.Flag("tie_word_embeddings", true);
  model.bias = true;
  model.qkv_bias = true;
  model.dropout = config.Real("resid_pdrop", 0.1) > 0;
  if (!config.Text("activation_function").empty()) {
    ReadActivation(config, "activation_function", model);
  }
}

void ReadQwen2(Config& config, Model& model) {
  ReadLlama(config, model);
  model.qkv_bias = true;
  ReadWindow(config, config.Flag("use_sliding_window", false), model);
}

void ReadQwen3(Config& config, Model& model) {
  ReadLlama(config, model);
  model.qkv_bias = config.Flag("attention_bias", false);
  model.qk_norm = true;
  ReadWindow(config, config.Flag("use_sliding_window", false), model);
}

// Layers of `mlp_only_layers` stay dense: only those at the start are supported.
uint32_t DenseFirst(Config& config) {
  std::vector<uint32_t> dense = config.Wholes("mlp_only_layers");
  std::sort(dense.begin(), dense.end());
  for (size_t i = 0; i < dense.size(); ++i) {
    if (dense[i] == i) continue;
    config.Refuse("mlp_only_layers",
                  "dense layers after the first ones with experts are not known");
    return 0;
  }
  return static_cast<uint32_t>(dense.size());
}

void ReadQwenExperts(Config& config, Model& model) {
  Experts experts;
  // Transformers 5 writes num_local_experts instead.
  experts.count = config.Whole("num_local_experts", kMaxModelExperts, 0);
  const bool renamed = experts.count > 0;
  const uint32_t count = config.Whole("num_experts", kMaxModelExperts,
                                      renamed ? std::optional(experts.count) : std::nullopt);
  if (renamed && count != experts.count) {
    config.Refuse("num_experts", "is " + std::to_string(count) + ", but num_local_experts is " +
                                     std::to_string(experts.count) + ": give one of them");
  }
  experts.count = count;
  experts.top_k = config.Whole("num_experts_per_tok", kMaxModelExperts);
  experts.ffn_hidden = config.Whole("moe_intermediate_size", kMaxModelFfn);
  experts.shared_ffn_hidden = config.Whole("shared_expert_intermediate_size", kMaxModelFfn, 0);
  experts.shared = experts.shared_ffn_hidden > 0 ? 1 : 0;
  experts.every = std::max(1u, config.Whole("decoder_sparse_step", kMaxModelLayers, 1));
  experts.dense_first_layers = DenseFirst(config);
  model.experts = experts;
}

void ReadQwen2Moe(Config& config, Model& model) {
  ReadQwen2(config, model);
  ReadQwenExperts(config, model);
}

void ReadQwen3Moe(Config& config, Model& model) {
  ReadQwen3(config, model);
  ReadQwenExperts(config, model);
}

// Without experts (n_routed_experts is absent or 0), the model is a dense one with latent
// attention.
void ReadDeepSeek(Config& config, Model& model) {
  ReadLlama(config, model);
  MultiLatent latent;
  latent.query_rank = config.Whole("q_lora_rank", kMaxModelHidden, 0);
  latent.kv_rank = config.Whole("kv_lora_rank", kMaxModelHidden);
  latent.qk_nope_dim = config.Whole("qk_nope_head_dim", kMaxModelHeads);
  latent.qk_rope_dim = config.Whole("qk_rope_head_dim", kMaxModelHeads);
  latent.v_dim = config.Whole("v_head_dim", kMaxModelHeads);
  model.multi_latent = latent;
  model.head_dim = latent.qk_nope_dim;
  Experts experts;
  experts.count = config.Whole("n_routed_experts", kMaxModelExperts, 0);
  model.multi_token_prediction_layers = config.Whole("num_nextn_predict_layers", 64, 0);
  if (experts.count == 0) return;
  experts.top_k = config.Whole("num_experts_per_tok", kMaxModelExperts);
  experts.ffn_hidden = config.Whole("moe_intermediate_size", kMaxModelFfn);
  experts.shared = config.Whole("n_shared_experts", 1'024, 0);
  experts.shared_ffn_hidden = experts.shared > 0 ? experts.ffn_hidden : 0;
  experts.dense_first_layers = config.Whole("first_k_dense_replace", kMaxModelLayers, 0);
  const std::string choice = config.Text("topk_method");
  experts.router_bias = choice == "noaux_tc";
  if (experts.router_bias || choice == "group_limited_greedy") {
    experts.groups = std::max(1u, config.Whole("n_group", kMaxModelExperts, 1));
    experts.groups_top_k = std::max(1u, config.Whole("topk_group", kMaxModelExperts, 1));
  }
  if (config.Whole("moe_layer_freq", kMaxModelLayers, 1) != 1) {
    config.Refuse("moe_layer_freq", "only 1 is known: experts in every layer after the dense ones");
  }
  model.experts = experts;
}

using Reader = void (*)(Config&, Model&);
// Sorted by name. A family that is missing is refused: the defaults of another one would give wrong
// numbers without an error.
constexpr auto kFamilies = std::to_array<std::pair<std::string_view, Reader>>({
    {"deepseek_v2", ReadDeepSeek},
    {"deepseek_v3", ReadDeepSeek},
    {"gpt2", ReadGpt2},
    {"llama", ReadPlainLlama},
    {"mistral", ReadMistral},
    {"mixtral", ReadMixtral},
    {"qwen2", ReadQwen2},
    {"qwen2_moe", ReadQwen2Moe},
    {"qwen3", ReadQwen3},
    {"qwen3_moe", ReadQwen3Moe},
});

Status UnknownFamily(std::string_view family, std::string_view source) {
  std::vector<std::string_view> names;
  for (const auto& [name, reader] : kFamilies) names.push_back(name);
  std::string why = std::string(source) + ": model_type: ";
  why += family.empty() ? std::string("is missing")
                        : "the family '" + Printable(family, 60) + "' is not known";
  if (const auto nearest = Nearest(family, names)) {
    why += ", did you mean '" + std::string(*nearest) + "'";
  }
  return InvalidArgument(
      why + "; known: " + Join(std::vector<std::string>(names.begin(), names.end()), ", ") +
      "; or describe the model as in docs/model-file.md");
}

}  // namespace

Result<Model> ReadHuggingFace(const Node& root, std::string_view source) {
  Config config(root, source);
  const std::string family = config.Text("model_type");
  const auto found = std::find_if(kFamilies.begin(), kFamilies.end(),
                                  [&](const auto& entry) { return entry.first == family; });
  if (found == kFamilies.end()) return UnknownFamily(family, source);
  Model model;
  model.name = Printable(config.Text("_name_or_path"), 200);
  if (model.name.empty()) model.name = family;
  found->second(config, model);
  RETURN_IF_ERROR(std::move(config).Finish());
  return model;
}

}  // namespace longhaul::spec::internal
