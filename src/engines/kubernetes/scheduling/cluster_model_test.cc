#include "engines/kubernetes/scheduling/cluster_model.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace longhaul::engines::kubernetes {
namespace {

using testing::HasSubstr;

Node MakeNode(const std::string& name, const std::string& resource, int64_t devices,
              const Labels& labels = {}) {
  Node node;
  node.meta.name = name;
  node.meta.labels = labels;
  node.capacity["cpu"] = Quantity::FromUnits(64);
  node.capacity["memory"] = *Quantity::Parse("100Gi");
  node.capacity["pods"] = Quantity::FromUnits(110);
  if (devices > 0) node.capacity[resource] = Quantity::FromUnits(devices);
  node.allocatable = node.capacity;
  node.conditions.push_back({"Ready", "True", ""});
  return node;
}

Amounts Needs(ClusterModel& model, const ResourceList& requests) {
  return NeedsOf(requests, model.names());
}

ResourceList Request(const std::string& resource, int64_t amount) {
  return {{resource, Quantity::FromUnits(amount)}};
}

TEST(Amounts, AreRoundedUpForPodsAndDownForNodes) {
  ResourceNames names;
  const ResourceList list = {{"cpu", *Quantity::Parse("1500u")},
                             {"memory", *Quantity::Parse("1500Ki")},
                             {"ephemeral-storage", *Quantity::Parse("1500Ki")},
                             {"rdma/hca", Quantity::FromUnits(3)}};
  const Amounts needs = NeedsOf(list, names), supply = SupplyOf(list, names);
  EXPECT_EQ(needs.cpu_milli, 2);
  EXPECT_EQ(needs.memory_mib, 2);
  EXPECT_EQ(needs.Of(names.Of("ephemeral-storage")), 2);
  EXPECT_EQ(needs.Of(kPodsResource), 1);
  EXPECT_EQ(supply.memory_mib, 1);
  EXPECT_EQ(supply.Of(names.Of("ephemeral-storage")), 1);
  EXPECT_EQ(supply.Of(names.Of("rdma/hca")), 3);
}

TEST(Amounts, OfManyNamesAndSizesStayInRange) {
  ResourceNames names;
  for (int i = 0; i < 10'000; ++i) names.Of("example.com/r" + std::to_string(i));
  Amounts total;
  const ResourceList list = {{"cpu", *Quantity::Parse("9E")},
                             {"example.com/r9999", *Quantity::Parse("9E")}};
  for (int i = 0; i < 1'000; ++i) AddTimes(NeedsOf(list, names), 1, total);
  EXPECT_GT(total.cpu_milli, int64_t{1} << 40);
  for (int i = 0; i < 1'000; ++i) AddTimes(NeedsOf(list, names), -1, total);
  EXPECT_EQ(total, Amounts());
}

TEST(Amounts, OfAPodHoldEachHostPortOnce) {
  ResourceNames names;
  Amounts needs;
  AddHostPorts({{80, "", ""}, {80, "TCP", "10.0.0.1"}, {80, "UDP", ""}}, names, needs);
  EXPECT_EQ(needs.Of(names.OfHostPort({80, "TCP", ""})), 1);
  EXPECT_EQ(needs.Of(names.OfHostPort({80, "UDP", ""})), 1);
  EXPECT_EQ(needs.others.size(), 2u);
  EXPECT_TRUE(names.IsHostPort(needs.others[0].first));
  EXPECT_FALSE(names.IsHostPort(names.Of("host.example.com/port")));
}

TEST(ClusterModel, PutsNodesIntoDomainsByTheirLabels) {
  ClusterModel model({});
  const std::string leaf = "network.topology.nvidia.com/leaf";
  const std::string spine = "network.topology.nvidia.com/spine";
  model.SetNode(MakeNode("n0", "nvidia.com/gpu", 8, {{leaf, "l"}, {spine, "s0"}}));
  model.SetNode(MakeNode("n1", "nvidia.com/gpu", 8, {{leaf, "l"}, {spine, "s1"}}));
  model.SetNode(MakeNode("n2", "nvidia.com/gpu", 8, {{spine, "s1"}}));
  const Result<spec::Topology> topology = model.MakeTopology();
  ASSERT_TRUE(topology.ok()) << topology.status();
  EXPECT_EQ(topology->levels()[0].domains.size(), 3u) << "equal names below two spines";
  EXPECT_EQ(topology->levels()[1].domains.size(), 2u);
  EXPECT_EQ(model.TierOf(leaf), 0);
  EXPECT_EQ(model.TierOf(spine), 1);
  EXPECT_EQ(model.TierOf("network.topology.nvidia.com/core"), std::nullopt);
}

TEST(ClusterModel, ServesADeviceFromTheNodesThatOfferIt) {
  ClusterModel model({});
  model.SetNode(MakeNode("n0", "nvidia.com/gpu", 8, {{"nvidia.com/gpu.product", "H100"}}));
  model.SetNode(MakeNode("n1", "nvidia.com/gpu", 8, {{"nvidia.com/gpu.product", "A100"}}));
  model.SetNode(MakeNode("n2", "amd.com/gpu", 8));
  model.UseRules("none", {});
  ASSERT_TRUE(model.MakeTopology().ok());
  const auto models = [&](const std::string& resource) {
    return scheduler::CountGpus(static_cast<scheduler::GpuMask>(
        model.ShapeOf(Needs(model, Request(resource, 2)), "none")->models));
  };
  EXPECT_EQ(models("nvidia.com/gpu"), 2);
  EXPECT_EQ(models("amd.com/gpu"), 1);
  EXPECT_THAT(model.ShapeOf(Needs(model, Request("habana.ai/gaudi", 1)), "none").status().message(),
              HasSubstr("no node offers habana.ai/gaudi"));
  const ResourceList both = {{"nvidia.com/gpu", Quantity::FromUnits(1)},
                             {"amd.com/gpu", Quantity::FromUnits(1)}};
  EXPECT_THAT(model.ShapeOf(Needs(model, both), "none").status().message(), HasSubstr("two kinds"));
}

TEST(ClusterModel, CountsThreeResourcesOfPodsAndNamesThemInARefusal) {
  ClusterModel model({});
  model.SetNode(MakeNode("n0", "nvidia.com/gpu", 8));
  model.UseRules("none", {});
  for (const char* name : {"a.io/a", "a.io/b", "a.io/c", "a.io/d"}) {
    model.UseResources(Needs(model, Request(name, 1)));
  }
  EXPECT_TRUE(model.is_behind());
  ASSERT_TRUE(model.MakeTopology().ok());
  EXPECT_FALSE(model.is_behind());
  EXPECT_TRUE(model.ShapeOf(Needs(model, Request("a.io/c", 1)), "none").ok());
  EXPECT_THAT(model.ShapeOf(Needs(model, Request("a.io/d", 1)), "none").status().message(),
              HasSubstr("a.io/a, a.io/b, a.io/c"));
}

TEST(ClusterModel, DevicesThatDoNotWorkAreUsedByOthers) {
  ClusterModel model({});
  model.SetNode(MakeNode("n0", "nvidia.com/gpu", 8));
  ASSERT_TRUE(model.MakeTopology().ok());
  Node node = MakeNode("n0", "nvidia.com/gpu", 8);
  node.allocatable["nvidia.com/gpu"] = Quantity::FromUnits(6);
  EXPECT_EQ(model.SetNode(node), ClusterModel::Change::kState);
  EXPECT_EQ(model.SetNode(node), ClusterModel::Change::kNothing);
  EXPECT_EQ(model.SharedOf("n0", Needs(model, Request("nvidia.com/gpu", 3))).devices, 5);
  node.unschedulable = true;
  EXPECT_EQ(model.SetNode(node), ClusterModel::Change::kState);
  EXPECT_EQ(model.ConditionOf("n0"), spec::NodeCondition::kCordoned);
  node.meta.labels["a"] = "b";
  EXPECT_EQ(model.SetNode(node), ClusterModel::Change::kFacts);
}

TEST(ClusterModel, RulesThatDivideTheNodesTooFinelyAreRefused) {
  ClusterModel model({});
  for (int i = 0; i < 300; ++i) model.SetNode(MakeNode("n" + std::to_string(i), "", 0));
  const auto rule = [](int i) {
    NodeRules rules;
    NodeSelectorTerm term;
    term.match_fields.push_back({"metadata.name", "In", {"n" + std::to_string(i)}});
    rules.terms.push_back({term});
    return rules;
  };
  for (int i = 0; i < 300; ++i) model.UseRules("rule " + std::to_string(i), rule(i));
  ASSERT_TRUE(model.MakeTopology().ok());
  EXPECT_TRUE(model.ShapeOf(Needs(model, {}), "rule 254").ok());
  EXPECT_THAT(model.ShapeOf(Needs(model, {}), "rule 255").status().message(), HasSubstr("256"));
  // Once others are gone there is room again.
  for (int i = 0; i < 200; ++i) model.ReleaseRules("rule " + std::to_string(i));
  ASSERT_TRUE(model.MakeTopology().ok());
  EXPECT_TRUE(model.ShapeOf(Needs(model, {}), "rule 255").ok());
}

TEST(NodeRules, FollowTheOperatorsOfTheApi) {
  Node node = MakeNode("n0", "", 0, {{"disk", "fast"}, {"cards", "8"}});
  node.taints.push_back({"soft", "", "PreferNoSchedule"});
  const auto permits = [&](const NodeRequirement& requirement) {
    NodeRules rules;
    rules.terms.push_back({{{requirement}, {}}});
    EXPECT_TRUE(CheckRules(rules).ok());
    return Permits(rules, node);
  };
  EXPECT_TRUE(permits({"disk", "In", {"slow", "fast"}}));
  EXPECT_FALSE(permits({"disk", "NotIn", {"fast"}}));
  EXPECT_TRUE(permits({"other", "NotIn", {"fast"}}));
  EXPECT_TRUE(permits({"disk", "Exists", {}}));
  EXPECT_FALSE(permits({"disk", "DoesNotExist", {}}));
  EXPECT_TRUE(permits({"cards", "Gt", {"7"}}));
  EXPECT_FALSE(permits({"cards", "Lt", {"8"}}));
  EXPECT_FALSE(permits({"disk", "Gt", {"1"}}));
  NodeRules none;
  none.terms.push_back({{}});
  EXPECT_FALSE(Permits(none, node)) << "a term without requirements permits no node";
  EXPECT_TRUE(Permits({}, node)) << "a preference is no rule";
  NodeRules wrong;
  wrong.terms.push_back({{{{"cards", "Gt", {"x"}}}, {}}});
  EXPECT_FALSE(CheckRules(wrong).ok());
}

TEST(NodeRules, TolerateTaintsByKeyValueAndEffect) {
  Node node = MakeNode("n0", "", 0);
  node.taints.push_back({"team", "x", "NoSchedule"});
  const auto permits = [&](const Toleration& toleration) {
    NodeRules rules;
    rules.tolerations.push_back(toleration);
    return Permits(rules, node);
  };
  EXPECT_FALSE(Permits({}, node));
  EXPECT_TRUE(permits({"", true, "", "", {}}));
  EXPECT_TRUE(permits({"team", false, "x", "", {}}));
  EXPECT_FALSE(permits({"team", false, "y", "", {}}));
  EXPECT_FALSE(permits({"team", true, "", "NoExecute", {}}));
  EXPECT_FALSE(permits({"other", true, "", "", {}}));
}

TEST(NodeRules, HaveEqualKeysOnlyWhenTheyAreEqual) {
  NodeRules a, b;
  a.selector = {{"x", "1:y"}};
  b.selector = {{"x", "1"}, {"y", ""}};
  EXPECT_NE(KeyOf(a), KeyOf(b));
  NodeRules c, d;
  c.terms.push_back({{{{"k", "In", {"ab", "c"}}}, {}}});
  d.terms.push_back({{{{"k", "In", {"a", "bc"}}}, {}}});
  EXPECT_NE(KeyOf(c), KeyOf(d));
  EXPECT_EQ(KeyOf(c), KeyOf(NodeRules(c)));
}

}  // namespace
}  // namespace longhaul::engines::kubernetes
