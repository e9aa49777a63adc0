#include "planner/time/placement.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>

namespace longhaul::planner {
namespace {

using spec::Dimension;
using spec::Layout;
using spec::PlacementOrder;

Layout Small() {
  Layout layout;
  layout.tensor = 4;
  layout.context = 2;
  layout.data = 8;
  layout.pipeline = 2;
  return layout;
}

TEST(Placement, TheUsualOrderIsMegatrons) {
  Layout layout = Small();
  layout.expert = 8;
  EXPECT_EQ(TensorGroup(layout).stride, 1u);
  EXPECT_EQ(ContextGroup(layout).stride, 4u);
  EXPECT_EQ(ExpertGroup(layout).stride, 1u);
  EXPECT_EQ(StageNeighbours(layout).stride, 64u);
  EXPECT_EQ(DenseReplicas(layout, 8).ranks, 16u);
  EXPECT_EQ(DenseReplicas(layout, 8).stride, 4u);
  EXPECT_EQ(ExpertReplicas(layout).ranks, 8u);
  EXPECT_EQ(ExpertReplicas(layout).stride, 8u);
}

// data, pipeline, tensor, context: worked by hand on islands of 32.
TEST(Placement, FollowsAnyOrder) {
  Layout layout = Small();
  layout.order = {Dimension::kData, Dimension::kPipeline, Dimension::kTensor, Dimension::kContext};
  EXPECT_EQ(StageNeighbours(layout).stride, 8u);
  EXPECT_EQ(TensorGroup(layout).stride, 16u);
  EXPECT_EQ(ContextGroup(layout).stride, 64u);
  // 8 neighbours of data in an island, and none of the other half of context.
  const Group replicas = DenseReplicas(layout, 32);
  EXPECT_EQ(replicas.ranks, 16u);
  EXPECT_EQ(32u / replicas.stride, 8u);
  // A stage's ranks 0..7 are neighbours, then the other stage's 8 follow.
  layout.expert_tensor = 8;
  layout.expert = 2;
  EXPECT_EQ(ExpertGroup(layout).stride, 16u);
}

TEST(Placement, NoPlacementBeatsTheBoundOfAll) {
  std::mt19937_64 rng(3);
  spec::DeviceCluster cluster;
  cluster.device = *spec::FindDevice("h100-sxm");
  cluster.devices = 1024;
  cluster.network.per_device = BytesPerSecond(50e9);
  cluster.network.leaf_oversubscription = 2;
  const Links links = ShippedLinks(cluster);
  Links bound = links;
  bound.any_placement = true;
  constexpr Collective kAll[] = {Collective::kAllReduce, Collective::kAllGather,
                                 Collective::kReduceScatter, Collective::kAllToAll,
                                 Collective::kSend};
  for (int i = 0; i < 20'000; ++i) {
    const Group group{2 + static_cast<uint32_t>(rng() % 600),
                      1 + static_cast<uint32_t>(rng() % 600)};
    const double bytes = static_cast<double>(1ull << (rng() % 34));
    const Collective collective = kAll[rng() % 5];
    ASSERT_LE(CollectiveSeconds(bound, collective, bytes, group),
              CollectiveSeconds(links, collective, bytes, group) * (1 + 1e-12))
        << static_cast<int>(collective) << " " << bytes << " B, " << group.ranks
        << " ranks, stride " << group.stride;
  }
}

}  // namespace
}  // namespace longhaul::planner
