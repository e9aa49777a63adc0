#include "planner/stage_layers.h"

#include <algorithm>

#include "base/check.h"

namespace longhaul::planner {

void StageLayers(uint32_t layers, const spec::Layout& layout, std::span<uint32_t> chunks) {
  const auto count = static_cast<uint32_t>(chunks.size());
  CHECK(count >= 1 && count == layout.pipeline * layout.virtual_pipeline);
  if (layout.layers_per_stage.size() == count) {
    std::copy(layout.layers_per_stage.begin(), layout.layers_per_stage.end(), chunks.begin());
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
  std::fill(chunks.begin(), chunks.end(), each);
  const uint32_t remainder = layers % count;
  const uint32_t first = (count - remainder) / 2;
  for (uint32_t i = 0; i < remainder; ++i) chunks[first + i] += 1;
}

}  // namespace longhaul::planner
