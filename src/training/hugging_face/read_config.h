// The config.json of a model in Hugging Face's format, as far as the training engine computes it.
//
// The shape is read by spec::ParseModel. This adds the numbers that a shape leaves out, with the
// defaults of the configuration classes in transformers, and refuses each value that would make
// the engine compute something else than transformers does. docs/training-models.md lists the keys.
#pragma once

#include <string>
#include <string_view>

#include "base/status.h"
#include "training/config.h"

namespace longhaul::training {

// By the key model_type.
enum class Family { kGpt2, kLlama, kMistral, kMixtral, kQwen2, kQwen3, kQwen3Moe };

// "gpt2", "llama", "mistral", "mixtral", "qwen2", "qwen3", "qwen3_moe".
std::string_view ToString(Family family);

struct HuggingFaceConfig {
  std::string text;  // of the file
  Family family = Family::kLlama;
  ModelConfig model;
};

// `source` names the text in messages. Returns kInvalidArgument or kUnimplemented with one line for
// each mistake: source, key, value and remedy. The model passes CheckTrainable.
Result<HuggingFaceConfig> ReadConfig(std::string_view text, std::string_view source);
Result<ModelConfig> ReadModelConfig(std::string_view text, std::string_view source);

// The file config.json of a folder.
Result<HuggingFaceConfig> ReadFolderConfig(const std::string& folder);

}  // namespace longhaul::training
