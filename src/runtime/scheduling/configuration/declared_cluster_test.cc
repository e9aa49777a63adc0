#include "runtime/scheduling/configuration/declared_cluster.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "runtime/scheduling/job_request.h"

namespace longhaul::runtime::scheduling {
namespace {

using spec::NodeCondition;
using testing::HasSubstr;

// One leaf of two hosts with 8 devices of the model of ClosCluster; the second is a spare.
DeclaredCluster Declared() {
  spec::ClusterDeclaration cluster = spec::ClosCluster(1, 1, 2);
  cluster.nodes[0].name = "a";
  cluster.nodes[1].name = "b";
  cluster.nodes[1].condition = NodeCondition::kSpare;
  return DeclaredCluster(cluster);
}

spec::NodeKind KindIn(const spec::Topology& topology, const std::string& node) {
  return topology.kind_of(*topology.Find(node));
}

TEST(DeclaredCluster, ANodeThatHasNotJoinedIsDown) {
  const auto topology =
      Declared().MakeTopology(std::vector<JoinedNode>{{"b", {8, 0, 0}, NodeCondition::kReady}}, 1);
  ASSERT_TRUE(topology.ok()) << topology.status();
  EXPECT_EQ(topology->node(*topology->Find("a")).condition, NodeCondition::kDown);
  EXPECT_EQ(topology->node(*topology->Find("b")).condition, NodeCondition::kReady);
}

TEST(DeclaredCluster, TheFileBoundsCoresAndMemoryAndSuppliesWhatIsNotReported) {
  const DeclaredCluster cluster = Declared();
  const spec::NodeKind& file = cluster.declaration()->kinds[0];
  const auto cores = static_cast<uint64_t>(file.cpu_milli / 1000);
  const auto topology = cluster.MakeTopology(
      std::vector<JoinedNode>{{"a", {8, cores + 5, 1 << 20}, NodeCondition::kReady},
                              {"b", {8, 0, 0}, NodeCondition::kReady}},
      1);
  ASSERT_TRUE(topology.ok()) << topology.status();
  EXPECT_EQ(KindIn(*topology, "a").cpu_milli, file.cpu_milli) << "not more than declared";
  EXPECT_EQ(KindIn(*topology, "a").memory_mib, 1) << "not more than reported";
  EXPECT_EQ(KindIn(*topology, "b").cpu_milli, file.cpu_milli);
  EXPECT_EQ(KindIn(*topology, "b").memory_mib, file.memory_mib);
}

TEST(DeclaredCluster, TheReportedSlotsDecideHowManyDevicesANodeHas) {
  const auto topology =
      Declared().MakeTopology(std::vector<JoinedNode>{{"a", {3, 0, 0}, NodeCondition::kReady}}, 2);
  ASSERT_TRUE(topology.ok()) << topology.status();
  EXPECT_EQ(KindIn(*topology, "a").devices.size(), 2u) << "two slots to a device, rounded up";
  EXPECT_EQ(KindIn(*topology, "a").counted[kSlots], 3);
}

TEST(DeclaredCluster, ANodeThatIsLeftOutHasADomainAndAModelOfItsOwn) {
  const DeclaredCluster cluster = Declared();
  const auto topology =
      cluster.MakeTopology(std::vector<JoinedNode>{{"a", {8, 0, 0}, NodeCondition::kReady},
                                                   {"z", {4, 0, 0}, NodeCondition::kReady}},
                           1);
  ASSERT_TRUE(topology.ok()) << topology.status();
  EXPECT_NE(KindIn(*topology, "z").model, KindIn(*topology, "a").model);
  EXPECT_EQ(cluster.ModelOf("z"), "undeclared");
  EXPECT_EQ(cluster.ModelOf("a"), cluster.declaration()->models[0].name);
}

TEST(DeclaredCluster, WithoutAFileTheNodesAreInNaturalOrder) {
  const auto topology = DeclaredCluster().MakeTopology(
      std::vector<JoinedNode>{{"node-1", {1, 0, 0}, NodeCondition::kReady},
                              {"node-10", {1, 0, 0}, NodeCondition::kReady},
                              {"node-2", {1, 0, 0}, NodeCondition::kReady}},
      1);
  ASSERT_TRUE(topology.ok()) << topology.status();
  EXPECT_EQ(topology->node(1).name, "node-2");
  EXPECT_EQ(topology->node(2).name, "node-10");
}

TEST(DeclaredCluster, WithoutAnyNodeThereIsNoTopology) {
  EXPECT_FALSE(DeclaredCluster().MakeTopology({}, 1).ok());
}

TEST(DeclaredCluster, NamesEachFactThatFallsShortOfTheFile) {
  const DeclaredCluster cluster = Declared();
  EXPECT_EQ(cluster.Contradiction("a", {8, 0, 0}), "")
      << "what is not reported is no contradiction";
  EXPECT_EQ(cluster.Contradiction("z", {1, 1, 1}), "") << "not declared";
  const std::string all = cluster.Contradiction("a", {7, 1, 1 << 20});
  EXPECT_THAT(all, HasSubstr("7 slots instead of 8 devices"));
  EXPECT_THAT(all, HasSubstr("1 cpu instead of 192 cpu"));
  EXPECT_THAT(all, HasSubstr("1.00 MiB of memory instead of"));
}

TEST(DeclaredCluster, ASpareIsASpareUnlessSomeoneUsesIt) {
  EXPECT_EQ(Declared().StandardCondition("b"), NodeCondition::kSpare);
  EXPECT_EQ(Declared().StandardCondition("z"), NodeCondition::kReady);
}

}  // namespace
}  // namespace longhaul::runtime::scheduling
