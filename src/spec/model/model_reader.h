// Models from text: YAML (docs/model-file.md), a Hugging Face config.json, a shipped name.
//
// The project's YAML has the keys of spec/model/model_schema.h and is strict: unknown keys and
// values out of range are rejected with line and key. A config.json is read for the supported
// families (llama, mistral, mixtral, gpt2, qwen2, qwen3, both with experts, deepseek_v2,
// deepseek_v3); only its keys that define the model's shape are used, the others are ignored. Its
// sequence length is the longest that the model supports; training usually uses a shorter one.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "spec/model/model.h"

namespace longhaul::spec {

// Reads either format; `model_type`, which only a config.json has, distinguishes them. `source`
// names the text in messages. The model passes CheckModel.
Result<Model> ParseModel(std::string_view text, std::string_view source);

// YAML that ParseModel reads back to an equal model, with every key.
std::string ToYaml(const Model& model);

// A shipped model, such as "llama-3.1-70b", with the sequence length of its training. An unknown
// name is kNotFound with the nearest known names.
Result<Model> FindModel(std::string_view name);
std::vector<std::string> ModelNames();  // sorted
// The same for a name as people write it: "meta-llama/Llama-3.1-8B-Instruct", "LLAMA3.1_70B".
Result<Model> FindSpelled(std::string_view name);

// The shipped model whose experts, hidden size and latents are those of `model`, if there is one:
// it provides the values that published sizes leave out (routing to groups).
std::optional<Model> FindByExperts(const Model& model);

}  // namespace longhaul::spec
