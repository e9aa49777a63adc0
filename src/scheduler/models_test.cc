// Gangs on clusters of several device models.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>

#include "scheduler/scheduler_fixture.h"

namespace longhaul::scheduler::models_test {
namespace {

using testing::ElementsAre;
using testing::UnorderedElementsAre;

constexpr uint16_t kNew = 0;
constexpr uint16_t kOld = 1;

// A leaf an inner list, with the device model of each host; each host has 8 GPUs in `islands`
// islands.
World ClusterOf(const std::vector<std::vector<uint16_t>>& leaves, uint32_t islands_of_old = 1,
                const std::vector<spec::QueueSpec>& queues = {}) {
  spec::ClusterDeclaration cluster;
  cluster.levels = {"leaf"};
  cluster.models = {{"new", 80 * 1024}, {"old", 16 * 1024}};
  cluster.kinds = {spec::UniformKind("new", kNew, 8, 1, 64'000, 1 << 20),
                   spec::UniformKind("old", kOld, 8, islands_of_old, 64'000, 1 << 20)};
  for (size_t leaf = 0; leaf < leaves.size(); ++leaf) {
    for (const uint16_t model : leaves[leaf]) {
      spec::DeclaredNode& node = cluster.nodes.emplace_back();
      node.name = "node-" + std::to_string(cluster.nodes.size());
      node.kind = model;
      node.domains = {"leaf-" + std::to_string(leaf)};
    }
  }
  auto topology = spec::Topology::Create(cluster);
  EXPECT_TRUE(topology.ok()) << topology.status();
  auto scheduler = Scheduler::Create(*topology, queues, Policy());
  EXPECT_TRUE(scheduler.ok()) << scheduler.status();
  return World(*scheduler, InstantFromNanoseconds(1'500'000'000'000'000'000));
}

void OfOneModel(JobRequest& job) {
  job.groups[0].one_model = true;
  job.groups[0].max_per_host = 1;
}

TEST(OneModel, AGangTakesTheModelWithTheFewestSwitches) {
  World world = ClusterOf({{kNew, kOld, kOld}, {kNew}});
  world.Submit("a", 2, 8, "", OfOneModel);
  EXPECT_THAT(world.NodesOf("a"), UnorderedElementsAre(1, 2));
  world.Submit("b", 2, 8, "", OfOneModel);
  EXPECT_THAT(world.NodesOf("b"), UnorderedElementsAre(0, 3)) << "the only ones left";
}

TEST(OneModel, AGangNeverMixesModels) {
  World world = ClusterOf({{kNew, kOld}, {kNew, kOld}});
  world.Submit("a", 1, 8, "", [](JobRequest& job) { job.groups[0].shape.models = 1u << kNew; });
  world.Submit("b", 1, 8, "", [](JobRequest& job) { job.groups[0].shape.models = 1u << kOld; });
  world.Submit("c", 2, 8, "", OfOneModel);
  EXPECT_FALSE(world.Runs("c")) << "one node of each model is free";
  EXPECT_THAT(world.Explain("c").sentence, testing::HasSubstr("all on one device model"));
  EXPECT_THAT(world.Explain("c").fix_texts, ElementsAre("let it mix device models"));
  world.End("b");
  EXPECT_TRUE(world.Runs("c"));
  EXPECT_EQ(world.Count(DecisionKind::kReject), 0u);
}

TEST(OneModel, AGangThatNoModelHoldsIsRejectedWithTheLargestSize) {
  World world = ClusterOf({{kNew, kOld}, {kNew, kOld}});
  world.Submit("a", 3, 8, "", OfOneModel);
  ASSERT_EQ(world.Count(DecisionKind::kReject), 1u);
  EXPECT_THAT(world.decisions[0].reason, testing::HasSubstr("the largest size that fits this "
                                                            "cluster is 2"));
}

void Urgent(JobRequest& job) {
  OfOneModel(job);
  job.priority = 9;
}

std::function<void(JobRequest&)> On(uint16_t model, Preemption preemption = Preemption::kRequeue) {
  return [model, preemption](JobRequest& job) {
    job.groups[0].shape.models = uint64_t{1} << model;
    job.preemption = preemption;
  };
}

TEST(OneModel, RoomIsMadeOnOneModelByTheCheapestVictims) {
  World world = ClusterOf({{kNew, kNew, kOld, kOld}});
  world.Submit("new-1", 1, 8, "", On(kNew));
  world.Submit("new-2", 1, 8, "", On(kNew));
  world.Submit("old", 1, 8, "", On(kOld));
  world.Submit("urgent", 2, 8, "", Urgent);
  EXPECT_THAT(world.NodesOf("urgent"), UnorderedElementsAre(2, 3)) << "one victim instead of two";
  EXPECT_FALSE(world.Runs("old"));
  EXPECT_TRUE(world.Runs("new-1"));
}

TEST(OneModel, RoomIsMadeWhereTheFreeSlotsOfAllModelsTogetherWouldSuffice) {
  World world = ClusterOf({{kNew, kNew, kOld, kOld}});
  world.Submit("new", 1, 8, "", On(kNew));
  world.Submit("old", 1, 8, "", On(kOld, Preemption::kNever));
  world.Submit("urgent", 2, 8, "", Urgent);
  EXPECT_THAT(world.NodesOf("urgent"), UnorderedElementsAre(0, 1));
  EXPECT_FALSE(world.Runs("new"));
  EXPECT_TRUE(world.Runs("old"));
}

TEST(OneModel, ALostTaskIsReplacedOnTheModelOfTheOthers) {
  World world = ClusterOf({{kNew, kNew, kOld}, {kNew}});
  world.Submit("a", 2, 8, "", OfOneModel);
  ASSERT_THAT(world.NodesOf("a"), UnorderedElementsAre(0, 1));
  world.Tell(NodeChanged{world.NodeName(0), spec::NodeCondition::kDown});
  EXPECT_THAT(world.NodesOf("a"), UnorderedElementsAre(1, 3)) << "not the old one beside it";
}

TEST(OneModel, AnElasticGangStartsWithAsManyAsOneModelHas) {
  World world = ClusterOf({{kNew, kOld, kOld}});
  world.Submit("a", 1, 8, "", [](JobRequest& job) {
    OfOneModel(job);
    job.groups[0].desired = 3;
  });
  EXPECT_THAT(world.NodesOf("a"), UnorderedElementsAre(1, 2));
  EXPECT_EQ(world.Count(DecisionKind::kGrow), 0u) << "it starts with as many as one model has";
}

TEST(Rails, AGangTakesTheKindOfHostsWithTheFewestSwitches) {
  World world = ClusterOf({{kNew, kOld, kOld}, {kNew}}, 2);
  world.Submit("a", 2, 4, "", [](JobRequest& job) { job.groups[0].rail_aligned = true; });
  for (const NodeIndex node : world.NodesOf("a")) EXPECT_LT(node, 3u) << "not in two leaves";
}

}  // namespace
}  // namespace longhaul::scheduler::models_test
