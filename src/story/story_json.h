// A post-mortem for programs. Pure.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>

#include "story/story.h"

namespace longhaul::story {

// The facts of StoryText. docs/explain.md describes the fields.
nlohmann::ordered_json StoryJson(const Story& story, std::optional<uint32_t> fault);

}  // namespace longhaul::story
