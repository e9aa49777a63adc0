#include "spec/cluster/device_cluster.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace longhaul::spec {
namespace {

using testing::HasSubstr;

TEST(ClusterName, FillsInWhatTheGpuIsSoldWith) {
  const auto h100 = ParseClusterName("h100-sxm:16384");
  ASSERT_TRUE(h100.ok()) << h100.status();
  EXPECT_EQ(h100->devices, 16'384u);
  EXPECT_EQ(h100->devices_per_node, 8u);
  EXPECT_EQ(h100->island, 8u);
  EXPECT_EQ(h100->network.per_device.count(), 50e9);
  EXPECT_EQ(ParseClusterName("gb200-nvl72:144")->island, 72u);
  EXPECT_EQ(ParseClusterName("a100-80gb-sxm")->devices, 8u);
  EXPECT_EQ(ParseClusterName("a100-80gb-sxm:4")->devices_per_node, 4u);
}

TEST(ClusterFile, OverridesTheGpu) {
  const auto cluster = ParseDeviceCluster(
      "device: h100-sxm\n"
      "devices: 64\n"
      "dollars_per_hour: 1.5\n"
      "network: {kind: roce, gb_per_s: 25, leaf_oversubscription: 2}\n",
      "c.yaml");
  ASSERT_TRUE(cluster.ok()) << cluster.status();
  EXPECT_EQ(cluster->device.dollars_per_hour, 1.5);
  EXPECT_EQ(cluster->network.kind, NetworkKind::kRoce);
  EXPECT_EQ(cluster->network.per_device.count(), 25e9);
  EXPECT_EQ(cluster->network.leaf_oversubscription, 2);
}

TEST(Cluster, NamesWhatIsWrongAndWhatWouldDo) {
  const struct {
    const char* text;
    const char* want;
  } kRows[] = {
      {"device: h100-sxn\ndevices: 8\n", "c.yaml:1"},
      {"device: h100-sxm\n", "needs 'device' and 'devices'"},
      {"device: h100-sxm\ndevices: -8\n", "devices: '-8' is not a whole number from 1 to 10000000"},
      {"device: h100-sxm\ndevices: 8.5\n", "whole number"},
      {"device: h100-sxm\ndevices: 8\niland: 8\n",
       "c.yaml:3: no figure named 'iland', did you mean "
       "'island'"},
      {"device: h100-sxm\ndevices: 8\nnetwork: {kind: infinband}\n", "'infiniband'"},
      {"device: h100-sxm\ndevices: 8\nmemory_gib: nan\n", "memory_gib"},
      {"- h100-sxm\n", "a cluster is a map"},
  };
  for (const auto& row : kRows) {
    const auto cluster = ParseDeviceCluster(row.text, "c.yaml");
    ASSERT_FALSE(cluster.ok()) << row.text;
    EXPECT_THAT(cluster.status().message(), HasSubstr(row.want));
  }
  EXPECT_THAT(ParseClusterName("h100-sxm:many").status().message(), HasSubstr("number of devices"));
  EXPECT_FALSE(ParseClusterName("h100-sxm:0").ok());
}

}  // namespace
}  // namespace longhaul::spec
