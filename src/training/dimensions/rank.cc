#include "training/dimensions/rank.h"

#include <algorithm>
#include <cstdint>
#include <vector>

namespace longhaul::training {
namespace {

// On a rank: its queries' heads by its heads of keys.
int64_t SharingHeads(const spec::Model& shape, const Layout& layout) {
  const uint32_t keys = std::max(1u, shape.kv_heads / layout.tensor);
  return shape.heads / layout.tensor / keys;
}

}  // namespace

std::unique_ptr<RankContext> RankContext::Create(const ModelConfig& config, const Layout& layout,
                                                 uint32_t rank, at::ScalarType type,
                                                 CommunicatorMaker& maker) {
  auto context = std::make_unique<RankContext>();
  context->config = config;
  context->layout = layout;
  context->rank = rank;
  context->place = PlaceOf(layout, rank);
  const spec::Model& shape = config.shape;
  const auto positions = [&](uint32_t ring) {
    return at::tensor(PositionsOf(shape.sequence_length, layout.context, ring), at::kLong);
  };
  context->positions = positions(context->place.ring);
  if (shape.position == spec::Position::kRope) {
    context->rotation = RotationOf(context->positions, shape.head_dim, config.rope_theta, type);
  }
  for (uint32_t ring = 0; ring < layout.context; ++ring) {
    context->masks.push_back(CausalMask(context->positions, positions(ring), type)
                                 .repeat({SharingHeads(shape, layout), 1}));
  }
  context->tensor = maker.Make("tensor", RanksOf(layout, rank, {.part = true}));
  context->context = maker.Make("context", RanksOf(layout, rank, {.ring = true}));
  context->expert = maker.Make("expert", ExpertRanks(layout, rank));
  context->pipeline = maker.Make("pipeline", RanksOf(layout, rank, {.stage = true}));
  context->world = maker.Make(
      "world", RanksOf(layout, rank, {.part = true, .ring = true, .replica = true, .stage = true}));
  return context;
}

}  // namespace longhaul::training
