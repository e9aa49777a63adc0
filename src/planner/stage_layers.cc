#include "planner/stage_layers.h"

#include <algorithm>

#include "base/check.h"

namespace longhaul::planner {

namespace {

constexpr uint32_t kPredictionWeight = 3;  // layers that a prediction layer and its loss weigh

// Evenly, the remainder on the middle chunks.
void Spread(uint32_t layers, std::span<uint32_t> chunks) {
  const auto count = static_cast<uint32_t>(chunks.size());
  std::fill(chunks.begin(), chunks.end(), layers / count);
  const uint32_t remainder = layers % count;
  const uint32_t first = (count - remainder) / 2;
  for (uint32_t i = 0; i < remainder; ++i) chunks[first + i] += 1;
}

}  // namespace

void StageLayers(uint32_t layers, const spec::Layout& layout, std::span<uint32_t> chunks,
                 uint32_t prediction_layers) {
  const auto count = static_cast<uint32_t>(chunks.size());
  CHECK(count >= 1 && count == layout.pipeline * layout.virtual_pipeline);
  if (layout.layers_per_stage.size() == count) {
    std::copy(layout.layers_per_stage.begin(), layout.layers_per_stage.end(), chunks.begin());
    return;
  }
  if (prediction_layers > 0 && count > 1) {
    // Not more than a chunk has, so that the last chunk's count does not fall below zero.
    const uint32_t weight = std::min(kPredictionWeight * prediction_layers, layers / count);
    Spread(layers + weight, chunks);
    chunks.back() -= weight;
    return;
  }
  const uint32_t each = layers / count;
  if (layers % count == 0) {
    std::fill(chunks.begin(), chunks.end(), each);
    return;
  }
  for (const uint32_t counted : {2u, 1u}) {
    // One: the loss alone counts as a layer.
    if (count < 2 || (layers + counted) % count != 0) continue;
    std::fill(chunks.begin(), chunks.end(), (layers + counted) / count);
    chunks.back() -= 1;
    if (counted == 2) chunks.front() -= 1;
    return;
  }
  Spread(layers, chunks);
}

}  // namespace longhaul::planner
