#include "spec/cluster/topology.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace longhaul::spec {
namespace {

using ::testing::HasSubstr;

DeclaredNode Node(std::string name, std::string leaf, std::string block) {
  DeclaredNode node;
  node.name = std::move(name);
  node.domains = {std::move(leaf), std::move(block)};
  return node;
}

ClusterDeclaration Scattered() {
  ClusterDeclaration cluster;
  cluster.models = {{"A", 1'024}};
  cluster.kinds = {UniformKind("k", 0, 4, 2, 8'000, 64)};
  cluster.nodes = {Node("n1", "l1", "b1"), Node("n2", "l3", "b2"), Node("n3", "l2", "b1"),
                   Node("n4", "l1", "b1"), Node("n5", "l3", "b2"), Node("n6", "l2", "b1")};
  return cluster;
}

TEST(Topology, NumbersTheNodesSoThatDomainsAreIntervals) {
  const Topology topology = *Topology::Create(Scattered());
  std::string names;
  for (const TopologyNode& node : topology.nodes()) names += node.name + " ";
  EXPECT_EQ(names, "n1 n4 n3 n6 n2 n5 ");
  const std::vector<Domain> leaves = {{"l1", 0, 2, 0}, {"l2", 2, 4, 0}, {"l3", 4, 6, 1}};
  const std::vector<Domain> blocks = {{"b1", 0, 4, 0}, {"b2", 4, 6, 0}};
  EXPECT_EQ(topology.levels()[0].domains, leaves);
  EXPECT_EQ(topology.levels()[1].domains, blocks);
  EXPECT_EQ(topology.levels()[2].domains, (std::vector<Domain>{{"cluster", 0, 6, 0}}));
  EXPECT_EQ(topology.levels()[0].domain_of_node, (std::vector<uint32_t>{0, 0, 1, 1, 2, 2}));
  EXPECT_EQ(topology.Find("n3"), 2u);
  EXPECT_EQ(topology.Find("n7"), std::nullopt);
  EXPECT_EQ(topology.FindLevel("block"), 1u);
}

TEST(Topology, KeepsUnnamedLeavesOfTwoBlocksApart) {
  ClusterDeclaration cluster = Scattered();
  for (DeclaredNode& node : cluster.nodes) node.domains[0].clear();
  const Topology topology = *Topology::Create(cluster);
  EXPECT_EQ(topology.levels()[0].domains, (std::vector<Domain>{{"", 0, 4, 0}, {"", 4, 6, 1}}));
}

TEST(Topology, GroupsWhatCutsAcrossTheNetwork) {
  ClusterDeclaration cluster = Scattered();
  cluster.groupings = {"row"};
  for (size_t i = 0; i < cluster.nodes.size(); ++i) {
    cluster.nodes[i].labels = {{"row", i % 2 == 0 ? "east" : "west"}, {"pool", "a"}};
  }
  const Topology topology = *Topology::Create(cluster);
  const Grouping& row = topology.groupings()[0];
  EXPECT_EQ(row.level.domains, (std::vector<Domain>{{"east", 0, 3, 0}, {"west", 3, 6, 0}}));
  EXPECT_EQ(row.order, (std::vector<uint32_t>{0, 2, 5, 1, 3, 4}));
  EXPECT_EQ(row.level.domain_of_node, (std::vector<uint32_t>{0, 1, 0, 1, 1, 0}));
  // The grouping's label doesn't make classes.
  ASSERT_EQ(topology.classes().size(), 1u);
  EXPECT_EQ(topology.classes()[0].labels, (std::map<std::string, std::string>{{"pool", "a"}}));
}

TEST(Topology, MakesAClassForEachSetOfLabelsAndTaints) {
  ClusterDeclaration cluster = Scattered();
  cluster.nodes[1].labels["pool"] = "b";
  cluster.nodes[2].taints = {"fragile"};
  cluster.nodes[4].labels["pool"] = "b";
  const Topology topology = *Topology::Create(cluster);
  EXPECT_EQ(topology.classes().size(), 3u);
  EXPECT_EQ(topology.node(*topology.Find("n2")).node_class,
            topology.node(*topology.Find("n5")).node_class);
  EXPECT_NE(topology.node(*topology.Find("n3")).node_class,
            topology.node(*topology.Find("n1")).node_class);
}

TEST(Topology, RefusesWhatContradictsItself) {
  const struct {
    const char* what;
    void (*change)(ClusterDeclaration&);
    const char* message;
  } kRows[] = {
      {"no nodes", [](ClusterDeclaration& c) { c.nodes.clear(); }, "not 0"},
      {"a name twice", [](ClusterDeclaration& c) { c.nodes[1].name = "n1"; },
       "node 'n1' is declared twice"},
      {"an empty name", [](ClusterDeclaration& c) { c.nodes[1].name = ""; }, "empty name"},
      {"a leaf in two blocks", [](ClusterDeclaration& c) { c.nodes[0].domains[1] = "b2"; },
       "leaf 'l1' lies in block 'b2' and, by node 'n4', in 'b1'"},
      {"no such kind", [](ClusterDeclaration& c) { c.nodes[0].kind = 1; }, "kind that isn't"},
      {"no such model", [](ClusterDeclaration& c) { c.kinds[0].model = 1; }, "model that isn't"},
      {"a missing level", [](ClusterDeclaration& c) { c.nodes[0].domains.pop_back(); },
       "1 domains for 2 levels"},
      {"negative cpu", [](ClusterDeclaration& c) { c.kinds[0].cpu_milli = -1; }, "cpu"},
      {"too much memory", [](ClusterDeclaration& c) { c.kinds[0].memory_mib = 1ll << 31; },
       "2,147,483,648"},
      {"17 devices", [](ClusterDeclaration& c) { c.kinds[0].devices.resize(17); }, "at most 16"},
      {"a rail too far", [](ClusterDeclaration& c) { c.kinds[0].devices[0].rail = 16; }, "rail"},
      {"too many models", [](ClusterDeclaration& c) { c.models.resize(64); }, "device models"},
  };
  for (const auto& row : kRows) {
    ClusterDeclaration cluster = Scattered();
    row.change(cluster);
    const auto topology = Topology::Create(cluster);
    ASSERT_FALSE(topology.ok()) << row.what;
    EXPECT_THAT(topology.status().message(), HasSubstr(row.message)) << row.what;
  }
}

TEST(Topology, RefusesMoreClassesThanAMaskHolds) {
  ClusterDeclaration cluster = ClosCluster(1, 1, kMaxNodeClasses + 1);
  for (size_t i = 0; i < cluster.nodes.size(); ++i) {
    cluster.nodes[i].labels["number"] = std::to_string(i);
  }
  EXPECT_THAT(Topology::Create(cluster).status().message(), HasSubstr("groupings"));
  cluster.groupings = {"number"};
  EXPECT_TRUE(Topology::Create(cluster).ok());
}

TEST(ClosCluster, HasTheSizesAskedFor) {
  const Topology topology = *Topology::Create(ClosCluster(2, 3, 4));
  EXPECT_EQ(topology.size(), 24u);
  EXPECT_EQ(topology.levels()[0].domains.size(), 6u);
  EXPECT_EQ(topology.levels()[1].domains.size(), 2u);
  EXPECT_EQ(topology.levels()[0].domains[4], (Domain{"leaf-5", 16, 20, 1}));
  EXPECT_EQ(topology.kind_of(0).devices.size(), 8u);
  EXPECT_EQ(topology.kind_of(0).devices[5], (DevicePlace{0, 5, 1}));
}

TEST(RackScaleCluster, HasRacksBesideLeaves) {
  const Topology topology = *Topology::Create(RackScaleCluster(4, 2));
  EXPECT_EQ(topology.size(), 72u);
  EXPECT_EQ(topology.levels()[0].domains.size(), 2u);
  ASSERT_EQ(topology.groupings().size(), 1u);
  EXPECT_EQ(topology.groupings()[0].level.domains.size(), 4u);
  EXPECT_EQ(topology.groupings()[0].level.domains[1], (Domain{"rack-2", 18, 36, 0}));
}

}  // namespace
}  // namespace longhaul::spec
