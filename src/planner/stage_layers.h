// The number of layers of each stage and chunk, where the layout does not give it.
//
// Megatron's rule where embedding and loss count as layers: (L + 2) split evenly, the first and the
// last chunk with one layer less each; else an even split with the remainder on the middle chunks.
// Pipeline rank c % pipeline holds chunk c.
#pragma once

#include <cstdint>
#include <span>

#include "spec/model/training.h"

namespace longhaul::planner {

// Fills `chunks`, one entry for each stage and chunk in the model's order, with sum `layers`.
// Requires chunks.size() == pipeline * virtual_pipeline of the layout, at least 1. Extra prediction
// layers are on the last chunk with a loss each, which weighs about two layers more: the chunk has
// three fewer own layers for each, as far as it has them.
void StageLayers(uint32_t layers, const spec::Layout& layout, std::span<uint32_t> chunks,
                 uint32_t prediction_layers = 0);

}  // namespace longhaul::planner
