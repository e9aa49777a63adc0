#include "spec/cluster/cluster.h"

#include <gtest/gtest.h>

namespace longhaul::spec {
namespace {

using namespace longhaul::literals;

TEST(LocalCluster, SharesTheMachineEvenly) {
  const auto cluster = LocalCluster(2, 2, 5, 8_GiB);
  ASSERT_TRUE(cluster.ok()) << cluster.status();
  const ClusterSpec want{{{"node-1", 2, 3, 4_GiB}, {"node-2", 2, 2, 4_GiB}}};
  EXPECT_EQ(*cluster, want);
  EXPECT_EQ(cluster->slots(), 4u);
}

TEST(LocalCluster, LeavesNoNodeWithoutACore) {
  const auto cluster = LocalCluster(3, 1, 2, 3_GiB);
  ASSERT_TRUE(cluster.ok());
  for (const NodeSpec& node : cluster->nodes) EXPECT_EQ(node.cores, 1u) << node.name;
}

TEST(LocalCluster, RefusesCountsOutOfRange) {
  EXPECT_FALSE(LocalCluster(0, 1, 1, 1_GiB).ok());
  EXPECT_FALSE(LocalCluster(100'001, 1, 1, 1_GiB).ok());
  EXPECT_FALSE(LocalCluster(1, 0, 1, 1_GiB).ok());
  EXPECT_FALSE(LocalCluster(1, 1'025, 1, 1_GiB).ok());
  EXPECT_FALSE(LocalCluster(1, 1, 0, 1_GiB).ok());
  EXPECT_FALSE(LocalCluster(1, 1, 1, Bytes(-1)).ok());
}

}  // namespace
}  // namespace longhaul::spec
