#include "spec/cluster/device.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <limits>

namespace longhaul::spec::device_test {
namespace {

using testing::HasSubstr;

DeviceCluster Cluster(std::string_view name, uint32_t devices) {
  DeviceCluster cluster;
  cluster.device = *FindDevice(name);
  cluster.devices = devices;
  cluster.network.per_device = BytesPerSecond(50e9);
  return cluster;
}

TEST(FindDevice, KnowsEveryNameAndAliases) {
  for (const std::string& name : DeviceNames()) {
    const auto device = FindDevice(name);
    ASSERT_TRUE(device.ok()) << name;
    EXPECT_EQ(device->name, name);
    EXPECT_TRUE(CheckDeviceCluster(Cluster(name, 8)).ok()) << name;
  }
  EXPECT_EQ(FindDevice("a100-sxm")->name, "a100-80gb-sxm");
  const auto names = DeviceNames();
  EXPECT_TRUE(std::is_sorted(names.begin(), names.end()));
}

TEST(FindDevice, ReadsMakersNames) {
  const std::pair<const char*, const char*> kNames[] = {{"NVIDIA A100-SXM4-80GB", "a100-80gb-sxm"},
                                                        {"A100 SXM 40GB", "a100-40gb-sxm"},
                                                        {"H100-SXM5-80GB", "h100-sxm"},
                                                        {"H100 PCIe", "h100-pcie"},
                                                        {"NVIDIA H100 80GB HBM3", "h100-sxm"},
                                                        {"GB200 NVL72", "gb200-nvl72"},
                                                        {"AMD Instinct MI300X", "mi300x"},
                                                        {"H200 141 GB", "h200-sxm"},
                                                        {"DGX B200", "b200-sxm"},
                                                        {"NVIDIA A10", "a10"}};
  for (const auto& [written, name] : kNames) {
    const auto device = FindDevice(written);
    ASSERT_TRUE(device.ok()) << written << ": " << device.status();
    EXPECT_EQ(device->name, name) << written;
  }
  const auto small = FindDevice("A100 40GB PCIe");
  ASSERT_TRUE(small.ok());
  EXPECT_EQ(small->name, "a100-40gb-pcie");
  EXPECT_EQ(small->memory, FindDevice("a100-40gb-sxm")->memory);
  EXPECT_EQ(small->island_bandwidth.count(), 0);
  for (const char* unknown : {"", "H100 Super", "H100 A100", "80GB", "v100"}) {
    EXPECT_FALSE(FindDevice(unknown).ok()) << unknown;
  }
}

TEST(FindDevice, NamesTheNearest) {
  const auto device = FindDevice("h100-smx");
  EXPECT_EQ(device.status().code(), Code::kNotFound);
  EXPECT_THAT(device.status().message(), HasSubstr("did you mean 'h100-sxm'"));
}

// From the sheets, worked in other units.
TEST(FindDevice, HasTheSheetsFigures) {
  const Device h100 = *FindDevice("h100-sxm");
  EXPECT_DOUBLE_EQ(h100.half.count(), 989.4e12);
  EXPECT_DOUBLE_EQ(h100.memory_bandwidth.count(), 3.35e12);
  EXPECT_NEAR(static_cast<double>(h100.memory.count()), 85e9, 0.5e9);  // 80 GB = 80 x 2^30
  EXPECT_EQ(FindDevice("a100-80gb-sxm")->compute_units, 108u);
  EXPECT_DOUBLE_EQ(FindDevice("gb200-nvl72")->island_bandwidth.count(), 900e9);
}

TEST(CheckDeviceCluster, RefusesWhatDoesNotFillNodes) {
  EXPECT_TRUE(CheckDeviceCluster(Cluster("h100-sxm", 4)).ok());  // half a node
  EXPECT_THAT(CheckDeviceCluster(Cluster("h100-sxm", 12)).message(), HasSubstr("take 8 or 16"));
  EXPECT_FALSE(CheckDeviceCluster(Cluster("h100-sxm", 0)).ok());
  DeviceCluster cluster = Cluster("gb200-nvl72", 72);
  cluster.devices_per_node = 4;
  cluster.island = 72;
  EXPECT_TRUE(CheckDeviceCluster(cluster).ok());
  cluster.island = 6;
  EXPECT_FALSE(CheckDeviceCluster(cluster).ok());
}

TEST(CheckDeviceCluster, RefusesAbsurdFigures) {
  DeviceCluster cluster = Cluster("h100-sxm", 8);
  cluster.network.per_device = BytesPerSecond(std::numeric_limits<double>::quiet_NaN());
  EXPECT_FALSE(CheckDeviceCluster(cluster).ok());
  cluster = Cluster("h100-sxm", 8);
  cluster.device.memory = Bytes(-1);
  EXPECT_FALSE(CheckDeviceCluster(cluster).ok());
  cluster = Cluster("h100-sxm", 8);
  cluster.network.leaf_oversubscription = 0;
  EXPECT_FALSE(CheckDeviceCluster(cluster).ok());
}

}  // namespace
}  // namespace longhaul::spec::device_test
