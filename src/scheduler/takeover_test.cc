// A scheduler that continues where another one stopped, and gangs that wait for a node.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "scheduler/scheduler_fixture.h"

namespace longhaul::scheduler {
namespace {

using std::chrono::minutes;
using std::chrono::seconds;

spec::Topology Clos(uint32_t blocks, uint32_t leaves, uint32_t hosts) {
  return *spec::Topology::Create(spec::ClosCluster(blocks, leaves, hosts));
}

void Rebuild(World& world, spec::Topology topology, const std::vector<spec::QueueSpec>& queues = {},
             const Policy& policy = {}) {
  auto next = Scheduler::Rebuild(world.scheduler, std::move(topology), queues, policy);
  ASSERT_TRUE(next.ok()) << next.status();
  world.scheduler = *std::move(next);
  const Status holds = world.scheduler.CheckInvariants();
  EXPECT_TRUE(holds.ok()) << holds;
}

// As the runtime has it: each task on a host of its own.
void OneAHost(JobRequest& job) { job.groups[0].max_per_host = 1; }

TEST(Rebuild, KeepsWhatRunsInPlaceAndTheOrderOfWhatWaits) {
  World world(1, 1, 2);
  world.Submit("runs", 2, 8);
  world.Submit("first", 1, 8);
  world.Pass(seconds(5));
  world.Submit("second", 1, 8);
  const auto before = world.scheduler.TasksOf(JobId("runs"));
  Rebuild(world, Clos(1, 2, 2));
  EXPECT_EQ(world.scheduler.TasksOf(JobId("runs")), before);
  EXPECT_TRUE(world.Runs("runs"));
  EXPECT_THAT(world.scheduler.Waiting(), testing::ElementsAre(JobId("first"), JobId("second")));
  world.Round();
  EXPECT_TRUE(world.Runs("first")) << "two more hosts are there";
  EXPECT_TRUE(world.Runs("second"));
}

TEST(Rebuild, LosesTasksOfNodesThatAreGoneAndPlacesThemAnew) {
  Policy policy;
  policy.repair_patience = minutes(10);
  World world(1, 2, 2, {}, policy);
  world.Submit("gang", 4, 8);
  Rebuild(world, Clos(1, 1, 3), {}, policy);
  EXPECT_EQ(world.NodesOf("gang").size(), 3u);
  world.Round();
  EXPECT_EQ(world.NodesOf("gang").size(), 3u) << "it keeps what it has and waits";
  Rebuild(world, Clos(1, 2, 2), {}, policy);
  world.Round();
  EXPECT_THAT(world.NodesOf("gang"), testing::UnorderedElementsAre(0u, 1u, 2u, 3u));
  EXPECT_EQ(world.Count(DecisionKind::kRepair), 1u);
}

TEST(Rebuild, LetsWhatRunsBeyondALoweredLimitRunAndAdmitsNoMore) {
  spec::QueueSpec queue;
  queue.name = "lab";
  World world(1, 1, 2, {queue});
  world.Submit("a", 1, 8, "lab");
  queue.limit = {{4'000, spec::kUnlimited, spec::kUnlimited}};
  Rebuild(world, Clos(1, 1, 2), {queue});
  EXPECT_TRUE(world.Runs("a"));
  world.Submit("b", 1, 2, "lab");
  EXPECT_FALSE(world.Runs("b"));
  EXPECT_THAT(world.scheduler.WaitText(JobId("b")), testing::HasSubstr("limit of 4 accelerators"));
  world.End("a");
  EXPECT_TRUE(world.Runs("b"));
}

TEST(Rebuild, PutsJobsOfAVanishedQueueIntoTheRoot) {
  spec::QueueSpec queue;
  queue.name = "lab";
  World world(1, 1, 1, {queue});
  world.Submit("runs", 1, 8, "lab");
  world.Submit("waits", 1, 8, "lab");
  Rebuild(world, Clos(1, 1, 2));
  world.Round();
  EXPECT_TRUE(world.Runs("runs"));
  EXPECT_TRUE(world.Runs("waits"));
}

TEST(Rebuild, StillWaitsForTheVictimsThatAreLeaving) {
  World world(1, 1, 1);
  world.obedient = false;
  world.Submit("low", 1, 8);
  world.Tell(TasksRunning{JobId("low"), world.decisions.back().transaction, {}});
  world.Submit("high", 1, 8, "", [](JobRequest& job) { job.priority = 10; });
  EXPECT_EQ(world.Stage("low"), JobStage::kLeaving);
  Rebuild(world, Clos(1, 1, 2));
  EXPECT_EQ(world.Stage("low"), JobStage::kLeaving);
  world.Round();
  EXPECT_EQ(world.Stage("low"), JobStage::kLeaving) << "it starts only once it has stopped";
  world.Tell(JobStopped{JobId("low")});
  EXPECT_EQ(world.Stage("low"), JobStage::kAssumed);
}

TEST(Rebuild, IsAFunctionOfWhatWasBefore) {
  const auto history = [] {
    World world(1, 2, 2);
    world.Submit("a", 3, 8);
    world.Submit("b", 2, 8);
    world.Tell(NodeFaulted{world.NodeName(0)});
    Rebuild(world, Clos(1, 2, 3));
    world.Round();
    return world.scheduler.Fingerprint();
  };
  EXPECT_EQ(history(), history());
}

TEST(Rebuild, RefusesGuaranteesBeyondTheClusterUnlessItStillGrows) {
  World world(1, 1, 1);
  spec::QueueSpec queue;
  queue.name = "lab";
  queue.guarantee = {{16'000, 0, 0}};
  EXPECT_FALSE(Scheduler::Rebuild(world.scheduler, Clos(1, 1, 1), {queue}, {}).ok());
  Policy growing;
  growing.growing_cluster = true;
  EXPECT_TRUE(Scheduler::Rebuild(world.scheduler, Clos(1, 1, 1), {queue}, growing).ok());
}

TEST(Patience, HoldsTheSurvivorsForASpareAndThenGivesThemUp) {
  Policy policy;
  policy.repair_patience = minutes(10);
  World world(1, 1, 2, {}, policy);
  world.Submit("gang", 2, 8);
  world.Tell(NodeChanged{world.NodeName(1), spec::NodeCondition::kDown});
  EXPECT_EQ(world.NodesOf("gang"), std::vector<NodeIndex>{0});
  ASSERT_TRUE(world.scheduler.NextDeadline().has_value());
  EXPECT_EQ(*world.scheduler.NextDeadline(), world.now + minutes(10));
  world.Submit("other", 1, 8);
  EXPECT_FALSE(world.Runs("other"));
  world.Pass(minutes(10));
  world.Round();
  EXPECT_FALSE(world.Runs("gang"));
  EXPECT_EQ(world.Count(DecisionKind::kEvict), 1u);
  EXPECT_TRUE(world.Runs("other"));
}

TEST(Patience, GivesASingleTaskAnotherNode) {
  Policy policy;
  policy.repair_patience = minutes(10);
  World world(1, 1, 2, {}, policy);
  world.Submit("one", 1, 8);
  world.Tell(NodeChanged{world.NodeName(0), spec::NodeCondition::kDown});
  EXPECT_EQ(world.NodesOf("one"), std::vector<NodeIndex>{1});
  EXPECT_EQ(world.Count(DecisionKind::kEvict), 0u);
}

// An elastic gang that holds fewer tasks than its minimum has nothing to spare: it is stopped as a
// whole, or left alone where it may only shrink.
TEST(Patience, AGangBelowItsMinimumDoesNotShrink) {
  for (const Preemption preemption : {Preemption::kRequeue, Preemption::kShrink}) {
    SCOPED_TRACE(static_cast<int>(preemption));
    Policy policy;
    policy.repair_patience = minutes(10);
    World world(1, 1, 3, {}, policy);
    world.Submit("gang", 5, 4, "", [&](JobRequest& job) {
      job.groups[0].desired = 6;
      job.preemption = preemption;
    });
    world.Tell(NodeChanged{world.NodeName(2), spec::NodeCondition::kDown});
    ASSERT_EQ(world.NodesOf("gang"), (std::vector<NodeIndex>{0, 0, 1, 1}));
    world.Submit("urgent", 1, 4, "", [](JobRequest& job) { job.priority = 10; });
    EXPECT_EQ(world.Count(DecisionKind::kShrink), 0u);
    const bool may_stop = preemption == Preemption::kRequeue;
    EXPECT_EQ(world.Runs("urgent"), may_stop);
    EXPECT_EQ(world.Count(DecisionKind::kEvict), may_stop ? 1u : 0u);
  }
}

TEST(OneTaskAHost, LiesInOneLeafAlthoughAnotherHasMoreSlots) {
  World world(1, 2, 3);
  world.Occupy({});
  world.Tell(NodeChanged{world.NodeName(0), spec::NodeCondition::kDown});
  world.Submit("gang", 3, 2, "", OneAHost);
  EXPECT_THAT(world.NodesOf("gang"), testing::ElementsAre(3u, 4u, 5u));
}

TEST(OneTaskAHost, StartsAsManyAsThereAreHostsAndGrowsWhenOneComesBack) {
  World world(1, 1, 3);
  world.Tell(NodeChanged{world.NodeName(2), spec::NodeCondition::kDown});
  world.Submit("elastic", 1, 2, "", [](JobRequest& job) {
    OneAHost(job);
    job.groups[0].desired = 3;
  });
  EXPECT_THAT(world.NodesOf("elastic"), testing::ElementsAre(0u, 1u));
  world.Round();
  world.Pass(seconds(1));
  world.Tell(NodeChanged{world.NodeName(2), spec::NodeCondition::kReady});
  ASSERT_TRUE(world.scheduler.NextDeadline().has_value());
  world.now = std::max(world.now, *world.scheduler.NextDeadline());
  world.Round();
  EXPECT_THAT(world.NodesOf("elastic"), testing::ElementsAre(0u, 1u, 2u));
}

TEST(OneTaskAHost, StopsVictimsOnAsManyHostsAsItNeeds) {
  World world(1, 1, 2);
  world.Submit("low", 1, 8);
  world.Submit("gang", 2, 2, "", [](JobRequest& job) {
    OneAHost(job);
    job.priority = 10;
  });
  EXPECT_TRUE(world.Runs("gang"));
  EXPECT_EQ(world.Count(DecisionKind::kEvict), 1u);
}

}  // namespace
}  // namespace longhaul::scheduler
