// Jobs that name the properties of their nodes: device models, labels, taints, cores and memory.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "runtime/scheduling/cluster_fixture.h"

namespace longhaul::runtime::scheduling_testing::properties_test {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

const std::string kController = "cluster: cluster.yaml\n";

// Leaf 1 has one node of each kind, leaf 2 an H100, leaf 3 a V100, and one more node is tainted.
const std::string kTwoKinds = R"(
levels: [leaf]
models:
  H100: {memory: 80GiB}
  V100: {memory: 16GiB}
kinds:
  new: {model: H100, devices: 2, cpu: 16, memory: 8GiB}
  old: {model: V100, devices: 2, cpu: 16, memory: 8GiB}
nodes:
  - {kind: new, name: new-1, at: {leaf: leaf-1}, labels: {pool: prod}}
  - {kind: old, name: old-1, at: {leaf: leaf-1}}
  - {kind: new, name: new-2, at: {leaf: leaf-2}}
  - {kind: old, name: old-2, at: {leaf: leaf-3}, labels: {pool: prod}}
  - {kind: new, name: new-3, at: {leaf: leaf-2}, taints: [reserved]}
)";

class Properties : public testing::Test {
 protected:
  Properties() : cluster_(kController, kTwoKinds) {
    for (const char* node : {"new-1", "old-1", "new-2", "old-2", "new-3"}) cluster_.Join(node);
  }
  // Why the job is refused; empty when it is not.
  std::string Refusal(const proto::Job& job) {
    return std::string(cluster_.controller.CheckSubmission(job).message());
  }

  Cluster cluster_;
};

TEST_F(Properties, AJobRunsOnTheDevicesThatItNames) {
  proto::Job job = Gang("a", 2);
  job.mutable_scheduling()->add_devices("V100");
  cluster_.Submit(job);
  EXPECT_THAT(cluster_.GangOf("a"), ElementsAre("old-1", "old-2"));
}

TEST_F(Properties, AGangLiesOnDevicesOfOneModelUnlessItMixesThem) {
  cluster_.Submit(Gang("a", 2));
  EXPECT_THAT(cluster_.GangOf("a"),
              testing::AnyOf(ElementsAre("new-1", "new-2"), ElementsAre("old-1", "old-2")));
  cluster_.Stop("a");
  proto::Job job = Gang("b", 2);
  job.mutable_scheduling()->set_mixed_devices(true);
  cluster_.Submit(job);
  EXPECT_THAT(cluster_.GangOf("b"), ElementsAre("new-1", "old-1")) << "the nodes of one leaf";
}

TEST_F(Properties, AGangThatNoModelCanHoldAloneIsRefused) {
  EXPECT_THAT(Refusal(Gang("a", 3)), HasSubstr("the largest size that fits this cluster is 2"));
  proto::Job mixed = Gang("b", 4);
  mixed.mutable_scheduling()->set_mixed_devices(true);
  EXPECT_EQ(Refusal(mixed), "");
  proto::Job leaf = mixed;
  leaf.mutable_scheduling()->set_topology("leaf");
  EXPECT_THAT(Refusal(leaf), HasSubstr("the largest size that fits one of its domains is 2"));
}

TEST_F(Properties, AJobRunsWhereTheDevicesHaveTheMemoryThatItNames) {
  proto::Job job = Gang("a", 1);
  job.mutable_scheduling()->set_device_memory_bytes(uint64_t{40} << 30);
  job.mutable_scheduling()->set_topology("leaf");
  cluster_.Submit(job);
  EXPECT_THAT(cluster_.GangOf("a"), testing::Each(testing::StartsWith("new-")));
  proto::Job larger = Gang("b", 1);
  larger.mutable_scheduling()->set_device_memory_bytes(uint64_t{90} << 30);
  EXPECT_NE(Refusal(larger), "");
}

TEST_F(Properties, AJobRunsWhereTheLabelsAreThatItSelects) {
  proto::Job job = Gang("a", 2);
  (*job.mutable_scheduling()->mutable_selector())["pool"] = "prod";
  job.mutable_scheduling()->set_mixed_devices(true);
  cluster_.Submit(job);
  EXPECT_THAT(cluster_.GangOf("a"), ElementsAre("new-1", "old-2"));
}

TEST_F(Properties, ATaintedNodeStaysEmptyUnlessTheJobToleratesTheTaint) {
  for (const char* id : {"a", "b", "c", "d"}) cluster_.Submit(Gang(id, 1));
  cluster_.Submit(Gang("e", 1));
  EXPECT_EQ(cluster_.StateOf("e"), proto::QUEUED);
  EXPECT_THAT(cluster_.Node("new-3").jobs(), IsEmpty());
  proto::Job job = Gang("f", 1);
  job.mutable_scheduling()->add_tolerates("reserved");
  cluster_.Submit(job);
  EXPECT_THAT(cluster_.GangOf("f"), ElementsAre("new-3"));
}

TEST_F(Properties, HostMemoryIsNeverPromisedTwice) {
  for (const char* id : {"a", "b"}) {
    proto::Job job = Gang(id, 1, 1);
    job.mutable_scheduling()->set_memory_bytes(uint64_t{5} << 30);
    (*job.mutable_scheduling()->mutable_selector())["pool"] = "prod";
    job.mutable_scheduling()->add_devices("H100");
    cluster_.Submit(job);
  }
  EXPECT_THAT(cluster_.GangOf("a"), ElementsAre("new-1"));
  EXPECT_EQ(cluster_.StateOf("b"), proto::QUEUED);
  EXPECT_EQ(cluster_.Node("new-1").used_slots(), 1u);
  cluster_.Stop("a");
  EXPECT_THAT(cluster_.GangOf("b"), ElementsAre("new-1"));
}

TEST_F(Properties, AnUnknownNameIsRefusedWithTheNearest) {
  proto::Job job = Gang("a", 1);
  job.mutable_scheduling()->add_devices("H10");
  EXPECT_THAT(Refusal(job), HasSubstr("did you mean 'H100'"));
  job = Gang("a", 1);
  (*job.mutable_scheduling()->mutable_selector())["pool"] = "staging";
  EXPECT_THAT(Refusal(job), HasSubstr("no node of the cluster has the labels"));
  job = Gang("a", 1);
  job.mutable_scheduling()->set_memory_bytes(uint64_t{16} << 30);
  EXPECT_NE(Refusal(job), "");
}

TEST_F(Properties, ANodeThatIsNotDeclaredHasNoKnownDevices) {
  cluster_.Join("guest-1");
  cluster_.Join("guest-2");
  proto::Job job = Gang("a", 4);
  job.mutable_scheduling()->add_devices("H100");
  EXPECT_NE(Refusal(job), "") << "three nodes have the device, one of them tainted";
  proto::Job any = Gang("b", 1);
  any.mutable_scheduling()->add_devices("undeclared");
  cluster_.Submit(any);
  EXPECT_THAT(cluster_.GangOf("b"), ElementsAre(testing::StartsWith("guest-")));
}

TEST_F(Properties, AfterAChangeOfTheClusterFileLabelsAreResolvedAgain) {
  proto::Job job = Gang("a", 1);
  (*job.mutable_scheduling()->mutable_selector())["pool"] = "prod";
  for (const char* id : {"a", "b", "c"}) {
    job.set_id(id);
    cluster_.Submit(job);
  }
  EXPECT_EQ(cluster_.StateOf("c"), proto::QUEUED) << "two nodes have the label";
  // The classes of nodes have other numbers now.
  const std::string changed = R"(
levels: [leaf]
models:
  H100: {memory: 80GiB}
  V100: {memory: 16GiB}
kinds:
  new: {model: H100, devices: 2, cpu: 16, memory: 8GiB}
  old: {model: V100, devices: 2, cpu: 16, memory: 8GiB}
nodes:
  - {kind: new, name: new-2, at: {leaf: leaf-2}, labels: {pool: test}}
  - {kind: new, name: new-3, at: {leaf: leaf-2}, labels: {zone: z}}
  - {kind: new, name: new-1, at: {leaf: leaf-1}, labels: {pool: prod}}
  - {kind: old, name: old-2, at: {leaf: leaf-3}, labels: {pool: prod}}
  - {kind: old, name: old-1, at: {leaf: leaf-1}, labels: {pool: prod}}
)";
  cluster_.Started(kController, changed);
  for (const char* node : {"new-1", "new-2", "new-3", "old-2"}) cluster_.Join(node);
  EXPECT_EQ(cluster_.StateOf("a"), proto::RUNNING);
  EXPECT_EQ(cluster_.StateOf("c"), proto::QUEUED);
  EXPECT_THAT(cluster_.Node("new-2").jobs(), IsEmpty());
  EXPECT_THAT(cluster_.Node("new-3").jobs(), IsEmpty());
  cluster_.Join("old-1");
  EXPECT_THAT(cluster_.GangOf("c"), ElementsAre("old-1"));
}

TEST_F(Properties, AJobWhoseLabelsTheNewClusterFileLacksRunsNowhere) {
  proto::Job job = Gang("a", 2);
  (*job.mutable_scheduling()->mutable_selector())["pool"] = "prod";
  job.mutable_scheduling()->set_mixed_devices(true);
  cluster_.Submit(job);
  job.set_id("b");
  cluster_.Submit(job);
  EXPECT_EQ(cluster_.StateOf("b"), proto::QUEUED);
  std::string without = kTwoKinds;
  while (without.find("prod") != std::string::npos)
    without.replace(without.find("prod"), 4, "test");
  cluster_.Started(kController, without);
  for (const char* node : {"new-1", "old-1", "new-2", "old-2", "new-3"}) cluster_.Join(node);
  cluster_.Stop("a");
  EXPECT_EQ(cluster_.StateOf("b"), proto::QUEUED);
}

TEST(PropertiesOfAnUndeclaredCluster, AreRefusedAsNothingIsKnownOfThem) {
  Cluster cluster;
  proto::Job job = Gang("a", 1);
  job.mutable_scheduling()->add_devices("H100");
  EXPECT_THAT(std::string(cluster.controller.CheckSubmission(job).message()),
              HasSubstr("need a cluster file"));
  cluster.Join("node-1");
  EXPECT_THAT(std::string(cluster.controller.CheckSubmission(job).message()),
              HasSubstr("need a cluster file"));
}

TEST(Contradiction, ANodeWithLessThanDeclaredIsReportedOnce) {
  Cluster cluster(kController, kTwoKinds);
  cluster.Join("new-1", 1);
  cluster.Join("old-1", 2);
  cluster.Join("guest", 1);
  cluster.Cut("new-1", 1);
  EXPECT_THAT(cluster.messages,
              ElementsAre(HasSubstr("node new-1 has less than the cluster file declares: 1 slots "
                                    "instead of 2 devices")));
}

}  // namespace
}  // namespace longhaul::runtime::scheduling_testing::properties_test
