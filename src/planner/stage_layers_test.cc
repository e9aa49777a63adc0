#include "planner/stage_layers.h"

#include <gtest/gtest.h>

#include <numeric>
#include <vector>

namespace longhaul::planner {
namespace {

std::vector<uint32_t> Layers(uint32_t layers, uint32_t pipeline, uint32_t chunks = 1,
                             uint32_t prediction = 0) {
  spec::Layout layout;
  layout.pipeline = pipeline;
  layout.virtual_pipeline = chunks;
  std::vector<uint32_t> out(pipeline * chunks);
  StageLayers(layers, layout, out, prediction);
  return out;
}

using List = std::vector<uint32_t>;

TEST(StageLayers, FollowsMegatronsRules) {
  EXPECT_EQ(Layers(96, 4), (List{24, 24, 24, 24}));
  EXPECT_EQ(Layers(70, 4), (List{17, 18, 18, 17}));  // 72 with embedding and loss
  EXPECT_EQ(Layers(7, 4), (List{2, 2, 2, 1}));       // 8 with the loss
  EXPECT_EQ(Layers(9, 4), (List{2, 3, 2, 2}));       // the middle takes what is left
  EXPECT_EQ(Layers(8, 2, 2), (List{2, 2, 2, 2}));
}

TEST(StageLayers, KeepsWhatTheLayoutSays) {
  spec::Layout layout;
  layout.pipeline = 2;
  layout.layers_per_stage = {5, 3};
  List out(2);
  StageLayers(8, layout, out);
  EXPECT_EQ(out, (List{5, 3}));
}

// DeepSeek-V3 on 16 stages: the last one has a layer, the prediction layer and two losses.
TEST(StageLayers, MakesRoomForPredictionLayers) {
  const List layers = Layers(61, 16, 1, 1);
  EXPECT_EQ(layers.back(), 1u);
  EXPECT_EQ(layers.front(), 4u);
}

TEST(StageLayers, NeverLosesALayer) {
  for (uint32_t layers = 1; layers < 40; ++layers) {
    for (uint32_t pipeline = 1; pipeline <= layers; ++pipeline) {
      for (const uint32_t prediction : {0u, 1u, 2u}) {
        const List out = Layers(layers, pipeline, 1, prediction);
        EXPECT_EQ(std::accumulate(out.begin(), out.end(), 0u), layers);
      }
    }
  }
}

}  // namespace
}  // namespace longhaul::planner
