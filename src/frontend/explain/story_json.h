// A post-mortem for programs. Pure.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>

#include "frontend/explain/story.h"

namespace longhaul::frontend {

// The facts of StoryText. docs/explain.md describes the fields.
nlohmann::ordered_json StoryJson(const Story& story, std::optional<uint32_t> fault);

}  // namespace longhaul::frontend
