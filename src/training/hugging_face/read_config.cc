#include "training/hugging_face/read_config.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <nlohmann/json.hpp>
#include <optional>
#include <utility>
#include <vector>

#include "base/text.h"
#include "io/files/file.h"
#include "spec/model/model_reader.h"

namespace longhaul::training {
namespace {

using Json = nlohmann::json;

constexpr size_t kMaxConfigBytes = size_t{1} << 20;

struct KnownFamily {
  std::string_view name;
  Family family;
  // Defaults of the configuration class, for what a file leaves out.
  double norm_epsilon = 1e-6;
  double rope_theta = 10'000;
};

constexpr auto kFamilies = std::to_array<KnownFamily>({
    {"gpt2", Family::kGpt2, 1e-5},
    {"llama", Family::kLlama},
    {"mistral", Family::kMistral},
    {"mixtral", Family::kMixtral, 1e-5, 1e6},
    {"qwen2", Family::kQwen2},
    {"qwen3", Family::kQwen3},
    {"qwen3_moe", Family::kQwen3Moe},
});

// Families that longhaul plans, but does not train.
constexpr auto kUntrained = std::to_array<std::pair<std::string_view, std::string_view>>({
    {"qwen2_moe", "the gate of a shared expert"},
    {"deepseek_v2", "multi-head latent attention"},
    {"deepseek_v3", "multi-head latent attention"},
});

// The values of a config.json. Collects the mistakes, so that one run reports all of them.
class Values {
 public:
  Values(const Json& root, std::string_view source) : root_(root), source_(source) {}

  // Null for a value that is absent or null.
  const Json* Find(std::string_view key) const { return FindIn(root_, key); }
  static const Json* FindIn(const Json& map, std::string_view key) {
    const auto found = map.find(key);
    return found == map.end() || found->is_null() ? nullptr : &*found;
  }

  // A number in (above, most].
  double Real(std::string_view key, double standard, double above, double most) {
    const Json* value = Find(key);
    return value == nullptr ? standard : Real(key, *value, standard, above, most);
  }
  double Real(std::string_view key, const Json& value, double standard, double above, double most) {
    if (value.is_number()) {
      const double number = value.get<double>();
      if (number > above && number <= most) return number;
    }
    Refuse(key, value, "give a number above " + Short(above) + " and at most " + Short(most));
    return standard;
  }

  double NotNegative(std::string_view key, double standard) {
    const Json* value = Find(key);
    if (value == nullptr) return standard;
    if (value->is_number() && value->get<double>() >= 0 && value->get<double>() <= 1'000) {
      return value->get<double>();
    }
    Refuse(key, *value, "give a number from 0 to 1000");
    return standard;
  }

  bool Flag(std::string_view key, bool standard) {
    const Json* value = Find(key);
    if (value == nullptr) return standard;
    if (value->is_boolean()) return value->get<bool>();
    Refuse(key, *value, "give true or false");
    return standard;
  }

  // Requires that the key is absent, null or `only`.
  void Only(std::string_view key, const Json& only, const std::string& remedy) {
    const Json* value = Find(key);
    if (value != nullptr && *value != only) Refuse(key, *value, remedy);
  }

  // Requires a probability of 0, which a file may leave out if that is the default.
  void NoDropout(std::string_view key, bool off_by_default) {
    const Json* value = Find(key);
    if (value == nullptr && off_by_default) return;
    const std::string remedy = "the training engine does not compute dropout: set it to 0";
    if (value == nullptr) {
      Refuse(key, "is absent, which means 0.1; " + remedy);
    } else if (!value->is_number() || value->get<double>() != 0) {
      Refuse(key, *value, remedy);
    }
  }

  void Refuse(std::string_view key, const Json& value, const std::string& remedy) {
    Refuse(key, "is " + Text(value) + "; " + remedy);
  }
  void Refuse(std::string_view key, const std::string& why) {
    mistakes_.push_back(source_ + ": " + std::string(key) + ": " + why);
  }

  Status Finish() && {
    return mistakes_.empty() ? Status() : InvalidArgument(Join(mistakes_, "\n"));
  }

 private:
  static std::string Text(const Json& value) {
    return Printable(value.dump(-1, ' ', false, Json::error_handler_t::replace), 60);
  }
  static std::string Short(double number) { return Json(number).dump(); }

  const Json& root_;
  const std::string source_;
  std::vector<std::string> mistakes_;
};

void ReadRope(Values& values, ModelConfig& model) {
  const Json* theta = values.Find("rope_theta");
  if (theta != nullptr) {
    model.rope_theta = values.Real("rope_theta", *theta, model.rope_theta, 0, 1e15);
  }
  values.Only("partial_rotary_factor", 1.0, "only whole heads are rotated: set it to 1");
  // Transformers 5 writes rope_parameters, and earlier versions wrote rope_scaling.
  for (const std::string key : {"rope_parameters", "rope_scaling"}) {
    const Json* map = values.Find(key);
    if (map == nullptr) continue;
    if (!map->is_object()) {
      values.Refuse(key, *map, "give a map with rope_type, or null");
      continue;
    }
    for (const char* name : {"rope_type", "type"}) {
      const Json* type = Values::FindIn(*map, name);
      if (type == nullptr || *type == "default") continue;
      values.Refuse(key + "." + name, *type,
                    "the training engine computes \"default\" only: set it so, or train another "
                    "model");
    }
    for (const auto& [name, value] : map->items()) {
      if (name == "rope_type" || name == "type" || name == "rope_theta") continue;
      if (name == "partial_rotary_factor" && value == 1.0) continue;
      if (value.is_null()) continue;
      values.Refuse(key + "." + Printable(name, 40), value,
                    "the training engine does not compute it: remove the key");
    }
    const Json* inner = Values::FindIn(*map, "rope_theta");
    if (inner == nullptr) continue;
    if (theta != nullptr && *inner != *theta) {
      values.Refuse(key + ".rope_theta", *inner, "rope_theta has another value: remove one");
    }
    model.rope_theta = values.Real(key + ".rope_theta", *inner, model.rope_theta, 0, 1e15);
  }
}

// Names that stand for exactly what the engine computes.
void ReadActivation(Values& values, std::string_view key, ModelConfig& model) {
  const Json* value = values.Find(key);
  if (value == nullptr) return;
  model.exact_gelu = *value == "gelu";
  for (const char* known : {"silu", "swish", "gelu", "gelu_new", "gelu_pytorch_tanh", "relu2"}) {
    if (*value == known) return;
  }
  values.Refuse(
      key, *value,
      "the training engine computes silu (swish), gelu, gelu_new (gelu_pytorch_tanh) and relu2");
}

void ReadGpt2(Values& values, ModelConfig& model) {
  for (const char* key : {"attn_pdrop", "embd_pdrop", "resid_pdrop"}) values.NoDropout(key, false);
  values.Only("scale_attn_weights", true,
              "attention is always divided by the root of head_dim: set it to true");
  values.Only("scale_attn_by_inverse_layer_idx", false,
              "the training engine does not scale attention by layer: set it to false");
  values.Only("add_cross_attention", false,
              "the training engine has decoders only: set it to false");
  ReadActivation(values, "activation_function", model);
  model.norm_epsilon = values.Real("layer_norm_epsilon", model.norm_epsilon, 0, 1);
}

// Biases that a shape cannot describe.
void CheckBiases(Values& values, Family family) {
  const bool attention = values.Flag("attention_bias", false);
  const bool mlp = values.Flag("mlp_bias", false);
  if (family == Family::kLlama && attention != mlp) {
    values.Refuse("attention_bias",
                  std::string("is ") + (attention ? "true" : "false") + ", but mlp_bias is " +
                      (mlp ? "true" : "false") +
                      "; the training engine has both biases or none: train another model");
  } else if (family != Family::kLlama && attention) {
    values.Refuse("attention_bias", true,
                  "the training engine has no such bias in this family: train another model");
  }
}

void ReadLlama(Values& values, Family family, ModelConfig& model) {
  values.NoDropout("attention_dropout", true);
  CheckBiases(values, family);
  ReadActivation(values, "hidden_act", model);
  ReadRope(values, model);
  model.norm_epsilon = values.Real("rms_norm_eps", model.norm_epsilon, 0, 1);
  const Json* types = values.Find("layer_types");
  if (types == nullptr) return;
  const bool full =
      types->is_array() && std::all_of(types->begin(), types->end(),
                                       [](const Json& t) { return t == "full_attention"; });
  if (!full) {
    values.Refuse("layer_types", *types,
                  "the training engine computes full attention only: each must be "
                  "\"full_attention\"");
  }
}

void ReadExperts(Values& values, Family family, ModelConfig& model) {
  // In Mixtral the probabilities of the chosen experts are always divided by their sum.
  model.normalised_routing = family == Family::kMixtral || values.Flag("norm_topk_prob", false);
  model.balance_loss = values.NotNegative("router_aux_loss_coef", 0.001);
  const Json* jitter = values.Find("router_jitter_noise");
  if (jitter != nullptr && *jitter != 0) {
    values.Refuse("router_jitter_noise", *jitter,
                  "the training engine does not compute noise of the router: set it to 0");
  }
}

Result<Family> ReadFamily(const Json& root, std::string_view source) {
  const Json* type = Values::FindIn(root, "model_type");
  const std::string name = type != nullptr && type->is_string() ? type->get<std::string>() : "";
  std::vector<std::string> names;
  std::vector<std::string_view> views;
  for (const KnownFamily& known : kFamilies) {
    if (known.name == name) return known.family;
    names.emplace_back(known.name);
    views.push_back(known.name);
  }
  std::string why = std::string(source) + ": model_type: ";
  const auto untrained = std::find_if(kUntrained.begin(), kUntrained.end(),
                                      [&](const auto& entry) { return entry.first == name; });
  if (untrained != kUntrained.end()) {
    why += "'" + name + "' has " + std::string(untrained->second) +
           ", which the training engine does not compute";
  } else if (name.empty()) {
    why += type == nullptr ? "is missing" : "must be a text";
  } else {
    why += "the family '" + Printable(name, 60) + "' is not known";
    if (const auto nearest = Nearest(name, views)) {
      why += ", did you mean '" + std::string(*nearest) + "'";
    }
  }
  return InvalidArgument(why + "; the training engine has " + Join(names, ", "));
}

// What is wrong with the shape beside what CheckTrainable finds, in the words of the file.
void CheckShape(Values& values, Family family, const spec::Model& shape) {
  const bool gpt2 = family == Family::kGpt2;
  if (values.Find("head_dim") == nullptr && shape.hidden % shape.heads != 0) {
    values.Refuse(gpt2 ? "n_head" : "num_attention_heads",
                  "is " + std::to_string(shape.heads) + ", which does not divide " +
                      (gpt2 ? "n_embd" : "hidden_size") + " (" + std::to_string(shape.hidden) +
                      "): give a divisor" + (gpt2 ? "" : " or head_dim"));
  }
  if (shape.sliding_window.has_value()) {
    values.Refuse("sliding_window",
                  "is " + std::to_string(shape.sliding_window->size) +
                      ", but the training engine computes full attention only: set it to null, "
                      "or max_position_embeddings to at most the window");
  }
  if (shape.experts.has_value() && shape.experts->every > 1 &&
      shape.experts->dense_first_layers > 0) {
    values.Refuse("mlp_only_layers", "is not empty, but decoder_sparse_step is " +
                                         std::to_string(shape.experts->every) +
                                         ": give one of them only");
  }
}

}  // namespace

std::string_view ToString(Family family) {
  return std::find_if(kFamilies.begin(), kFamilies.end(),
                      [&](const KnownFamily& known) { return known.family == family; })
      ->name;
}

Result<HuggingFaceConfig> ReadConfig(std::string_view text, std::string_view source) {
  if (text.size() > kMaxConfigBytes) {
    return InvalidArgument(std::string(source) + ": has " + std::to_string(text.size()) +
                           " bytes, expected at most " + std::to_string(kMaxConfigBytes));
  }
  const Json root = Json::parse(text, nullptr, /*allow_exceptions=*/false);
  if (!root.is_object()) {
    return InvalidArgument(std::string(source) +
                           ": is not an object in JSON; give the config.json of a model in "
                           "Hugging Face's format");
  }
  HuggingFaceConfig config;
  config.text = text;
  ASSIGN_OR_RETURN(config.family, ReadFamily(root, source));
  ModelConfig& model = config.model;
  for (const KnownFamily& known : kFamilies) {
    if (known.family != config.family) continue;
    model.norm_epsilon = known.norm_epsilon;
    model.rope_theta = known.rope_theta;
  }
  ASSIGN_OR_RETURN(model.shape, spec::ParseModel(text, source));
  Values values(root, source);
  CheckShape(values, config.family, model.shape);
  if (config.family == Family::kGpt2) {
    ReadGpt2(values, model);
  } else {
    ReadLlama(values, config.family, model);
  }
  if (model.shape.experts.has_value()) ReadExperts(values, config.family, model);
  model.initial_deviation = values.NotNegative("initializer_range", 0.02);
  if (const Json* value = values.Find("quantization_config"); value != nullptr) {
    values.Refuse("quantization_config",
                  "is given, but the training engine has no quantised weights: use the model that "
                  "was quantised");
  }
  RETURN_IF_ERROR(std::move(values).Finish());
  const Status trainable = CheckTrainable(model);
  if (!trainable.ok()) return trainable.WithContext(source);
  return config;
}

Result<ModelConfig> ReadModelConfig(std::string_view text, std::string_view source) {
  ASSIGN_OR_RETURN(HuggingFaceConfig config, ReadConfig(text, source));
  return std::move(config.model);
}

Result<HuggingFaceConfig> ReadFolderConfig(const std::string& folder) {
  const std::string path = folder + "/config.json";
  ASSIGN_OR_RETURN(const std::string text, io::ReadText(path, kMaxConfigBytes));
  return ReadConfig(text, path);
}

}  // namespace longhaul::training
