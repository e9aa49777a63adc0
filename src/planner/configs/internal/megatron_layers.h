// Megatron-LM's notation for layers: stages as letters, the layers with experts as a list.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "spec/model/model.h"

namespace longhaul::planner::configs::internal {

// The layers of each stage and chunk of "Et*3|(t|)*2|tmL": t a layer, E the embedding, L the loss,
// m an extra prediction layer. Rejects other letters, unmatched brackets and more than 10,000.
Result<std::vector<uint32_t>> ParseStageLetters(std::string_view text);

// The layers that have experts: "3" (each third, from the first), or "([0]*3+[1]*58)". Fills
// `dense_first_layers` and `every`; rejects patterns that these two cannot express.
Status ParseExpertLayers(std::string_view text, uint32_t layers, spec::Experts& experts);

}  // namespace longhaul::planner::configs::internal
