// For tests of Hugging Face's format: small models of each family. Header only; not part of the
// library.
#pragma once

#include <array>
#include <nlohmann/json.hpp>
#include <string>

#include "base/check.h"
#include "training/hugging_face/read_config.h"

namespace longhaul::training::testing_support {

inline constexpr std::array kAllFamilies = {Family::kGpt2,    Family::kLlama, Family::kMistral,
                                            Family::kMixtral, Family::kQwen2, Family::kQwen3,
                                            Family::kQwen3Moe};

// Two layers, four heads, vocabulary 15, hidden size 8, four experts where the family has them.
inline nlohmann::json TinyConfig(Family family) {
  if (family == Family::kGpt2) {
    return {{"model_type", "gpt2"}, {"vocab_size", 15},  {"n_embd", 8},
            {"n_layer", 2},         {"n_head", 4},       {"n_positions", 16},
            {"attn_pdrop", 0.0},    {"embd_pdrop", 0.0}, {"resid_pdrop", 0.0}};
  }
  nlohmann::json config = {{"model_type", ToString(family)},
                           {"vocab_size", 15},
                           {"hidden_size", 8},
                           {"intermediate_size", 12},
                           {"num_hidden_layers", 2},
                           {"num_attention_heads", 4},
                           {"num_key_value_heads", 2},
                           {"max_position_embeddings", 16}};
  if (family == Family::kMixtral) {
    config["num_local_experts"] = 4;
    config["num_experts_per_tok"] = 2;
  }
  if (family == Family::kQwen3Moe) {
    config["num_experts"] = 4;
    config["num_experts_per_tok"] = 2;
    config["moe_intermediate_size"] = 6;
  }
  return config;
}

inline HuggingFaceConfig Parsed(const nlohmann::json& config) {
  const Result<HuggingFaceConfig> read = ReadConfig(config.dump(), "config.json");
  CHECK(read.ok()) << read.status().message();
  return *read;
}

}  // namespace longhaul::training::testing_support
