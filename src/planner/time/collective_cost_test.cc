#include "planner/time/collective_cost.h"

#include <gtest/gtest.h>

#include <random>

namespace longhaul::planner {
namespace {

Links LinksOf(const std::string& device, double network, uint32_t island = 8) {
  spec::DeviceCluster cluster;
  cluster.device = *spec::FindDevice(device);
  cluster.devices = 1024;
  cluster.island = island;
  cluster.network.per_device = BytesPerSecond(network);
  return ShippedLinks(cluster);
}

// Bus bandwidth of 537 MB on 8 GPUs, NCCL 2.27-2.29 (aiconfigurator's tables): A100 205 and 222,
// H100 335 and 445, B200 617 and 704 GB/s for all-gather and all-reduce.
TEST(CollectiveSeconds, IsNearTheMeasuredBusBandwidth) {
  const struct {
    const char* device;
    double gather;
    double reduce;
  } kRows[] = {
      {"a100-80gb-sxm", 205e9, 222e9}, {"h100-sxm", 335e9, 445e9}, {"b200-sxm", 617e9, 704e9}};
  for (const auto& row : kRows) {
    const Links links = LinksOf(row.device, 50e9);
    const double bytes = 537e6;
    const double through = bytes * 7 / 8;
    const Group group{8, 1};
    SCOPED_TRACE(row.device);
    EXPECT_NEAR(
        through / CollectiveSeconds(links, Collective::kAllGather, bytes, group) / row.gather, 1,
        0.12);
    EXPECT_NEAR(
        2 * through / CollectiveSeconds(links, Collective::kAllReduce, bytes, group) / row.reduce,
        1, 0.12);
  }
}

TEST(CollectiveSeconds, NeverFallsWithBytesAndIsZeroAlone) {
  std::mt19937_64 rng(4);
  const Links links = LinksOf("h100-sxm", 50e9);
  for (int i = 0; i < 2'000; ++i) {
    const double bytes = static_cast<double>(rng() % 1'000'000'000);
    const Group group{1 + static_cast<uint32_t>(rng() % 300), 1u << (rng() % 5)};
    for (const auto collective : {Collective::kAllReduce, Collective::kAllGather,
                                  Collective::kAllToAll, Collective::kSend}) {
      const double t = CollectiveSeconds(links, collective, bytes, group);
      ASSERT_LE(t, CollectiveSeconds(links, collective, bytes + 1'000, group));
      ASSERT_EQ(CollectiveSeconds(links, collective, bytes, {1, group.stride}), 0);
    }
  }
}

// Eight members a node have eight NICs; one member a node, as under tensor 8, has one.
TEST(CollectiveSeconds, MembersOfANodeShareItsNics) {
  const Links links = LinksOf("h100-sxm", 50e9);
  const double bytes = 4e9;
  const double all = CollectiveSeconds(links, Collective::kReduceScatter, bytes, {64, 1});
  const double one = CollectiveSeconds(links, Collective::kReduceScatter, bytes, {64, 8});
  EXPECT_NEAR(one / (bytes * 63 / 64 / links.network_bytes_per_s), 1, 0.02);
  EXPECT_GT(one / all, 5);
}

TEST(CollectiveSeconds, ARackOfNvlinkKeepsTrafficOffTheNetwork) {
  const Links rack = LinksOf("gb200-nvl72", 50e9, 72);
  const Links nodes = LinksOf("b200-sxm", 50e9, 8);
  const Group group{32, 1};
  EXPECT_LT(5 * CollectiveSeconds(rack, Collective::kAllToAll, 400e6, group),
            CollectiveSeconds(nodes, Collective::kAllToAll, 400e6, group));
}

TEST(CollectiveSeconds, OversubscriptionCostsOnlyWhatLeavesTheLeaf) {
  Links links = LinksOf("h100-sxm", 50e9);
  links.leaf = 256;
  const auto gather = [&](uint32_t ranks) {
    return CollectiveSeconds(links, Collective::kAllGather, 1e9, {ranks, 8});
  };
  const double near = gather(32);
  const double far = gather(64);
  links.leaf_oversubscription = 2;
  EXPECT_EQ(gather(32), near);
  EXPECT_GT(gather(64), 1.8 * far);
}

}  // namespace
}  // namespace longhaul::planner
