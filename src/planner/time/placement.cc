#include "planner/time/placement.h"

#include <algorithm>
#include <utility>

namespace longhaul::planner {
namespace {

using spec::Dimension;
using spec::Layout;

uint32_t Stride(const Layout& layout, Dimension dimension) {
  return static_cast<uint32_t>(std::min<uint64_t>(layout.stride(dimension), 1u << 31));
}

// The distance in GPUs of two ranks that are `apart` in the order of one stage's ranks.
uint32_t GpusApart(const Layout& layout, uint64_t apart) {
  const uint64_t inside = layout.stride(Dimension::kPipeline);
  const uint64_t gpus = apart < inside ? apart : apart * layout.pipeline;
  return static_cast<uint32_t>(std::min<uint64_t>(gpus, 1u << 31));
}

uint32_t Members(uint32_t island, uint32_t stride, uint32_t ranks) {
  return std::clamp(island / std::max(1u, stride), 1u, std::max(1u, ranks));
}

}  // namespace

Group TensorGroup(const Layout& layout) {
  return {layout.tensor, Stride(layout, Dimension::kTensor)};
}

Group ContextGroup(const Layout& layout) {
  return {layout.context, Stride(layout, Dimension::kContext)};
}

Group ExpertGroup(const Layout& layout) {
  return {layout.expert, GpusApart(layout, layout.expert_tensor)};
}

Group StageNeighbours(const Layout& layout) { return {2, Stride(layout, Dimension::kPipeline)}; }

// Dense weights are replicated over data and context together. Where the two are not adjacent in
// the order, no one stride describes the group; the one chosen puts about the same number of
// members into an island.
Group DenseReplicas(const Layout& layout, uint32_t island) {
  Group inner{layout.context, Stride(layout, Dimension::kContext)};
  Group outer{layout.data, Stride(layout, Dimension::kData)};
  if (inner.stride > outer.stride) std::swap(inner, outer);
  Group both{inner.ranks * outer.ranks, inner.stride};
  if (inner.ranks == 1) return outer;
  if (outer.ranks == 1 || inner.ranks * inner.stride == outer.stride) return both;
  const uint32_t members =
      Members(island, inner.stride, inner.ranks) * Members(island, outer.stride, outer.ranks);
  both.stride = std::max(inner.stride, island / members);
  return both;
}

Group ExpertReplicas(const Layout& layout) {
  const uint32_t span = layout.expert * layout.expert_tensor;
  return {std::max(1u, layout.data * layout.context * layout.tensor / span),
          GpusApart(layout, span)};
}

}  // namespace longhaul::planner
