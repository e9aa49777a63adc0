#include "spec/cluster/cluster_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace longhaul::spec {
namespace {

using ::testing::HasSubstr;

constexpr std::string_view kExample = R"(
cluster: training
counted: [rdma]
groupings: [nvlink_domain]
models:
  H100: {memory: 80GiB}
kinds:
  dgx: {model: H100, devices: 8, islands: 2, rails: 8, cpu: 192, memory: 2TiB, counted: {rdma: 800}}
  front: {cpu: 0.5, memory: 512MiB}
nodes:
  - {kind: dgx, prefix: gpu-, each: {block: 2, leaf: 3}, hosts: 4, every: {nvlink_domain: 6}}
  - {kind: dgx, each: {leaf: 1}, at: {block: block-2}, condition: spare, taints: [old]}
  - {kind: front, name: login, at: {block: block-1, leaf: leaf-1}, labels: {pool: dev}}
)";

TEST(ClusterFile, ExpandsRegularParts) {
  const ClusterDeclaration cluster = *ParseClusterFile(kExample, "cluster.yaml");
  ASSERT_EQ(cluster.nodes.size(), 26u);
  EXPECT_EQ(cluster.nodes[0].name, "gpu-1");
  EXPECT_EQ(cluster.nodes[0].domains, (std::vector<std::string>{"leaf-1", "block-1"}));
  EXPECT_EQ(cluster.nodes[11].domains, (std::vector<std::string>{"leaf-3", "block-1"}));
  EXPECT_EQ(cluster.nodes[12].domains, (std::vector<std::string>{"leaf-4", "block-2"}));
  EXPECT_EQ(cluster.nodes[23].labels.at("nvlink_domain"), "nvlink_domain-4");
  EXPECT_EQ(cluster.nodes[24].name, "node-1");
  EXPECT_EQ(cluster.nodes[24].domains, (std::vector<std::string>{"leaf-7", "block-2"}));
  EXPECT_EQ(cluster.nodes[24].condition, NodeCondition::kSpare);
  EXPECT_EQ(cluster.nodes[25].name, "login");
  EXPECT_EQ(cluster.kinds[1].cpu_milli, 500);
  EXPECT_EQ(cluster.kinds[0].memory_mib, 2 * 1'024 * 1'024);
  EXPECT_EQ(cluster.kinds[0].counted[0], 800);
  EXPECT_EQ(cluster.kinds[0].devices[4], (DevicePlace{1, 4, 1}));
  const Topology topology = *Topology::Create(cluster);
  EXPECT_EQ(topology.levels()[0].domains.size(), 7u);
  EXPECT_EQ(topology.levels()[1].domains.size(), 2u);
  // The login node lies beside the first leaf's hosts.
  EXPECT_EQ(topology.Find("login"), 4u);
  EXPECT_EQ(topology.groupings()[0].level.domains.size(), 5u);  // four and those without
}

TEST(ClusterFile, ReadsTheSmallestFile) {
  const ClusterDeclaration cluster =
      *ParseClusterFile("{kinds: {k: {cpu: 4}}, nodes: [{kind: k}]}", "c");
  EXPECT_EQ(cluster.nodes[0].name, "node-1");
  EXPECT_EQ(cluster.nodes[0].domains, (std::vector<std::string>{"", ""}));
}

// Four factors of 2^16 are 2^64: the product must not wrap around to few nodes.
TEST(ClusterFile, RefusesAMatmulThatWouldOverflow) {
  const auto cluster = ParseClusterFile(
      "{levels: [a, b, c, d], kinds: {k: {}}, nodes: [{kind: k, hosts: 65536, each: {a: 65536, "
      "b: 65536, c: 65536, d: 1}}]}",
      "c.yaml");
  EXPECT_THAT(cluster.status().message(), HasSubstr("more than 65,536 nodes"));
}

TEST(ClusterFile, SaysWhatIsWrongAndWhere) {
  const struct {
    const char* change;
    const char* to;
    const char* message;
  } kRows[] = {
      {"cluster: training", "clusters: x", "c.yaml:2: unknown key 'clusters': did you mean"},
      {"devices: 8", "devices: 17", "c.yaml:8: devices must be a whole number from 0 to 16"},
      {"devices: 8", "devices: 0", "model needs 'devices'"},
      {"model: H100", "model: H200", "c.yaml:8: the model 'H200' is not among"},
      {"80GiB", "80GB", "c.yaml:6: memory must be a size such as 80GiB"},
      {"80GiB", "99999999TiB", "c.yaml:6: memory must be a size"},
      {"cpu: 192", "cpu: 192.0001", "c.yaml:8: cpu must be a number of cores"},
      {"cpu: 192", "cpu: -1", "cpu must be a number of cores"},
      {"{rdma: 800}", "{rmda: 800}", "c.yaml:8: 'rmda' is not in the cluster's list"},
      {"kind: front", "kind: back", "c.yaml:13: the kind 'back' is not among"},
      {"hosts: 4", "hosts: 0", "hosts must be a whole number from 1 to 65,536"},
      {"hosts: 4", "hosts: 60000", "c.yaml:11: more than 65,536 nodes"},
      {"{block: 2, leaf: 3}", "{block: 65536, leaf: 65536}", "more than 65,536 nodes"},
      {"{block: 2, leaf: 3}", "{blok: 2}", "'blok' is no level; the levels are leaf, block"},
      {"each: {leaf: 1}", "each: {block: 1}", "block is in both 'at' and 'each'"},
      {"at: {block: block-2}", "at: {leaf: l}", "leaf is in both 'at' and 'each'"},
      {"condition: spare", "condition: broken", "condition must be ready"},
      {"block: block-1, leaf: leaf-1", "block: block-2, leaf: leaf-1", "leaf 'leaf-1' lies in"},
      {"name: login", "name: gpu-1", "node 'gpu-1' is declared twice"},
      {"name: login", "name: login, hosts: 2", "a name is for one node"},
      {"every: {nvlink_domain: 6}", "every: 6", "every must be a map"},
  };
  for (const auto& row : kRows) {
    std::string text(kExample);
    const size_t at = text.find(row.change);
    ASSERT_NE(at, std::string::npos) << row.change;
    text.replace(at, std::string_view(row.change).size(), row.to);
    const auto cluster = ParseClusterFile(text, "c.yaml");
    ASSERT_FALSE(cluster.ok()) << row.to;
    EXPECT_THAT(cluster.status().message(), HasSubstr(row.message));
  }
  EXPECT_THAT(ParseClusterFile("[]", "c.yaml").status().message(), HasSubstr("c.yaml:1:"));
  EXPECT_THAT(ParseClusterFile("{kinds: {k: {}}}", "c").status().message(), HasSubstr("'nodes'"));
  EXPECT_THAT(ParseClusterFile("{nodes: []}", "c").status().message(), HasSubstr("'kinds'"));
}

}  // namespace
}  // namespace longhaul::spec
