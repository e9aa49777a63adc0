// Quotas of device models beside those of all accelerators.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "scheduler/scheduler_fixture.h"

namespace longhaul::scheduler::model_quotas_test {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::UnorderedElementsAre;

constexpr uint16_t kNew = 0;
constexpr uint16_t kOld = 1;

// `news` hosts of model "new" and then `olds` of model "old", each with 8 GPUs, in one leaf.
spec::Topology Hosts(int news, int olds) {
  spec::ClusterDeclaration cluster;
  cluster.levels = {"leaf"};
  cluster.models = {{"new", 80 * 1024}, {"old", 16 * 1024}};
  cluster.kinds = {spec::UniformKind("new", kNew, 8, 1, 64'000, 1 << 20),
                   spec::UniformKind("old", kOld, 8, 1, 64'000, 1 << 20)};
  for (int i = 0; i < news + olds; ++i) {
    spec::DeclaredNode& node = cluster.nodes.emplace_back();
    node.name = "node-" + std::to_string(i);
    node.kind = i < news ? kNew : kOld;
    node.domains = {"leaf"};
  }
  auto topology = spec::Topology::Create(cluster);
  EXPECT_TRUE(topology.ok()) << topology.status();
  return *topology;
}

World ClusterOf(int news, int olds, const std::string& queues) {
  const auto parsed = spec::ParseQueues("queues: [" + queues + "]", "queues");
  EXPECT_TRUE(parsed.ok()) << parsed.status();
  auto scheduler = Scheduler::Create(Hosts(news, olds), *parsed, Policy());
  EXPECT_TRUE(scheduler.ok()) << scheduler.status();
  return World(*scheduler, InstantFromNanoseconds(1'500'000'000'000'000'000));
}

void OnNew(JobRequest& job) { job.groups[0].shape.models = 1u << kNew; }

// What the queue uses of the model, in GPUs.
int64_t Used(const World& world, const std::string& queue, const std::string& model) {
  const auto& models = world.scheduler.QuotaModels();
  const auto at = std::find(models.begin(), models.end(), model);
  for (const QueueView& view : world.scheduler.Queues()) {
    if (view.name != queue) continue;
    return view.usage[spec::kSharedResources + static_cast<size_t>(at - models.begin())] / 1'000;
  }
  return -1;
}

TEST(ModelQuotas, ALimitOfAModelKeepsItsGpusFromTheQueue) {
  World world = ClusterOf(2, 2, "{name: a, limit: {devices: {new: 8}}}");
  world.Submit("first", 1, 8, "a", OnNew);
  world.Submit("second", 1, 8, "a", OnNew);
  EXPECT_THAT(world.NodesOf("first"), ElementsAre(0));
  EXPECT_THAT(world.NodesOf("second"), ElementsAre());
  EXPECT_EQ(Used(world, "a", "new"), 8);
  EXPECT_THAT(world.scheduler.WaitText(JobId("second")),
              HasSubstr("queue 'a' uses 8 accelerators of model new of its limit of 8"));
  const auto why = world.scheduler.Explain(JobId("second"), world.now);
  ASSERT_TRUE(why.ok());
  ASSERT_FALSE(why->fix.empty());
  for (const Event& event : why->fix) world.Tell(event);
  EXPECT_FALSE(world.NodesOf("second").empty()) << ToJson(*why);
  world.End("first");
  world.End("second");
  EXPECT_EQ(Used(world, "a", "new"), 0);
}

TEST(ModelQuotas, AJobThatMayUseAnyModelTakesTheOneWithQuotaLeft) {
  World world = ClusterOf(2, 2, "{name: a, limit: {devices: {new: 8}}}");
  for (const char* name : {"a", "b", "c"}) world.Submit(name, 1, 8, "a");
  EXPECT_EQ(Used(world, "a", "new"), 8);
  EXPECT_EQ(world.NodesOf("a").size() + world.NodesOf("b").size() + world.NodesOf("c").size(), 3u);
  world.Submit("d", 1, 8, "a");
  EXPECT_TRUE(world.NodesOf("d").empty()) << "a new host is free, but beyond the limit";
}

TEST(ModelQuotas, AGangLiesOnOneModel) {
  World world = ClusterOf(1, 1, "{name: a, limit: {devices: {new: 16}}}");
  world.Submit("gang", 2, 4, "a");
  ASSERT_EQ(world.NodesOf("gang").size(), 2u);
  EXPECT_EQ(world.NodesOf("gang")[0], world.NodesOf("gang")[1]);
  world.Submit("next", 2, 6, "a");
  EXPECT_TRUE(world.NodesOf("next").empty()) << "a host of each model is no place for a gang";
}

TEST(ModelQuotas, AGuaranteeOfAModelIsTakenBackFromThoseWhoBorrowIt) {
  World world = ClusterOf(2, 2,
                          "{name: a, guarantee: {accelerators: 8, devices: {new: 8}}}, "
                          "{name: b, guarantee: {accelerators: 8}}");
  world.Submit("b1", 1, 8, "b", OnNew);
  world.Submit("b2", 1, 8, "b", OnNew);
  EXPECT_EQ(Used(world, "b", "new"), 16);
  // The old hosts are free, but only a new one will do.
  world.Submit("a1", 1, 8, "a", OnNew);
  EXPECT_EQ(Used(world, "a", "new"), 8);
  EXPECT_EQ(Used(world, "b", "new"), 8);
  // b is within its guarantee of accelerators, and a has no further guarantee of this model.
  world.Submit("a2", 1, 8, "a", OnNew);
  EXPECT_TRUE(world.NodesOf("a2").empty());
  EXPECT_TRUE(world.scheduler.CheckGuarantees(world.now).ok());
}

TEST(ModelQuotas, AGuaranteeOfAcceleratorsDoesNotTakeAModelThatIsGuaranteedToAnother) {
  World world = ClusterOf(1, 1,
                          "{name: a, guarantee: {accelerators: 8, devices: {new: 8}}}, "
                          "{name: b, guarantee: {accelerators: 8}}");
  world.Submit("a1", 1, 8, "a", OnNew);
  world.Submit("a2", 1, 8, "a");
  EXPECT_THAT(world.NodesOf("a2"), ElementsAre(1));
  world.Submit("b1", 1, 8, "b");
  EXPECT_THAT(world.NodesOf("b1"), ElementsAre(1)) << "what a borrows is of the old model";
  EXPECT_THAT(world.NodesOf("a1"), ElementsAre(0));
}

TEST(ModelQuotas, WhatIsNotLentStaysFree) {
  World world = ClusterOf(1, 0,
                          "{name: a, guarantee: {accelerators: 4, devices: {new: 4}}, "
                          "lend: {devices: {new: 0}}}, {name: b}");
  for (const char* name : {"b1", "b2", "b3"}) world.Submit(name, 1, 2, "b", OnNew);
  EXPECT_EQ(Used(world, "b", "new"), 4);
}

TEST(ModelQuotas, EachUserHasALimitOfAModel) {
  World world = ClusterOf(1, 1, "{name: a, per_user: {devices: {new: 4}}}");
  const auto of = [](const std::string& owner) {
    return [owner](JobRequest& job) {
      OnNew(job);
      job.owner = owner;
    };
  };
  world.Submit("u1", 1, 4, "a", of("u"));
  world.Submit("u2", 1, 4, "a", of("u"));
  world.Submit("v1", 1, 4, "a", of("v"));
  EXPECT_TRUE(world.NodesOf("u2").empty());
  EXPECT_FALSE(world.NodesOf("v1").empty());
  EXPECT_THAT(world.scheduler.WaitText(JobId("u2")),
              HasSubstr("holds 4 accelerators of model new of the 4 accelerators of model new"));
}

TEST(ModelQuotas, AJobBeyondTheLimitOfEveryModelThatHoldsItIsRefused) {
  World world = ClusterOf(2, 1, "{name: a, limit: {devices: {new: 8}}}");
  JobRequest gang = world.Request("gang", 2, 8, "a");  // one old host cannot hold it
  EXPECT_THAT(world.scheduler.CheckSubmission(gang).message(),
              HasSubstr("needs 16 accelerators of model new, but queue 'a' is limited to 8"));
  EXPECT_TRUE(world.scheduler.CheckSubmission(world.Request("one", 1, 8, "a")).ok());
}

TEST(ModelQuotas, OfAModelThatNoNodeHasAreRefused) {
  const auto queues = spec::ParseQueues("queues: [{name: a, limit: {devices: {nwe: 8}}}]", "q");
  ASSERT_TRUE(queues.ok());
  const auto made = Scheduler::Create(Hosts(1, 1), *queues, Policy());
  ASSERT_FALSE(made.ok());
  EXPECT_THAT(made.status().message(),
              HasSubstr("queue 'a' has a quota of device model 'nwe', which no node has: did you "
                        "mean 'new'?"));
  Policy growing;
  growing.growing_cluster = true;
  EXPECT_TRUE(Scheduler::Create(Hosts(1, 1), *queues, growing).ok()) << "such nodes may still join";
}

TEST(ModelQuotas, AGangThatMixedModelsBeforeStaysUntilItStops) {
  const auto plain = spec::ParseQueues("queues: [{name: a}]", "q");
  auto before = Scheduler::Create(Hosts(2, 1), *plain, Policy());
  ASSERT_TRUE(before.ok());
  World world(*before, InstantFromNanoseconds(1'500'000'000'000'000'000));
  world.Submit("filler", 1, 8, "a", OnNew);
  world.Submit("mixed", 2, 8, "a");
  EXPECT_THAT(world.NodesOf("mixed"), UnorderedElementsAre(1, 2));
  const auto limited = spec::ParseQueues("queues: [{name: a, limit: {devices: {new: 16}}}]", "q");
  auto after = Scheduler::Rebuild(world.scheduler, Hosts(2, 1), *limited, Policy());
  ASSERT_TRUE(after.ok()) << after.status();
  World next(*after, world.now);
  EXPECT_EQ(Used(next, "a", "new"), 16);
  EXPECT_THAT(next.NodesOf("mixed"), UnorderedElementsAre(1, 2));
  EXPECT_TRUE(next.scheduler.CheckInvariants().ok());
  next.End("mixed");
  EXPECT_EQ(Used(next, "a", "new"), 8);
}

}  // namespace
}  // namespace longhaul::scheduler::model_quotas_test
