// A post-mortem for people. Pure. Texts from jobs and workers are made harmless for a terminal.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "story/story.h"

namespace longhaul::story {

// All faults and the summary, or only the fault with that number. Requires that there is one.
std::string StoryText(const Story& story, std::optional<uint32_t> fault);

}  // namespace longhaul::story
