// Where the rules of time end: windows, pauses, caps, and what several may take of one reserve.
#include <gtest/gtest.h>

#include "scheduler/scheduler_fixture.h"

namespace longhaul::scheduler {
namespace {

using std::chrono::hours;
using std::chrono::minutes;

// Only these hosts are ready.
void Open(World& world, const std::vector<NodeIndex>& hosts) {
  for (NodeIndex node = 0; node < world.scheduler.topology().size(); ++node) {
    const bool open = std::find(hosts.begin(), hosts.end(), node) != hosts.end();
    world.Tell(NodeChanged{world.NodeName(node),
                           open ? spec::NodeCondition::kReady : spec::NodeCondition::kCordoned});
  }
}

TEST(Limits, LossesFarApartAreNotTheSwitchs) {
  Policy policy;
  World world(1, 2, 5, {}, policy);
  for (NodeIndex node = 0; node < policy.leaf_faults; ++node) {
    world.Tell(NodeChanged{world.NodeName(node), spec::NodeCondition::kDown});
    world.Pass(policy.leaf_window / 2 + minutes(1));
  }
  EXPECT_EQ(world.scheduler.state().node(3).condition, spec::NodeCondition::kReady);
}

TEST(Limits, WaitingRaisesByItsStepsAndNoFurther) {
  for (const int32_t steps : {2, 8}) {
    Policy policy;
    policy.aging_period = hours(1);
    policy.aging_steps = steps;
    World world(1, 1, 1, {}, policy);
    world.Submit("running", 1, 8, "", [](JobRequest& job) { job.preemption = Preemption::kNever; });
    world.Submit("aged", 1, 8);
    world.Pass(hours(20));
    world.Submit("urgent", 1, 8, "", [](JobRequest& job) { job.priority = 5; });
    world.End("running");
    EXPECT_EQ(world.Runs("aged"), steps == 8) << steps << " steps";
  }
}

TEST(Limits, LongJobsShareWhatAReservationCanSpare) {
  Policy policy;
  policy.reservation_idle_milli = 0;
  World world(1, 1, 4, {}, policy);
  world.Submit("first", 1, 8, "", Lasts(hours(2)));
  world.Submit("second", 1, 8, "", Lasts(hours(2)));
  world.Submit("gang", 3, 8, "", Lasts(hours(1)));
  // In two hours four hosts are free, and the gang takes three: one of these may continue longer.
  for (const char* name : {"long-1", "long-2"}) {
    JobRequest job = world.Request(name, 1, 8);
    Lasts(hours(3))(job);
    world.scheduler.Apply(JobSubmitted{job}, world.now);
  }
  world.Round();
  EXPECT_TRUE(world.Runs("long-1"));
  EXPECT_EQ(world.Stage("long-2"), JobStage::kWaiting);
  world.Pass(hours(2));
  world.End("first");
  world.End("second");
  EXPECT_TRUE(world.Runs("gang"));
}

TEST(Limits, NoJobIsMovedTwiceWithinThePause) {
  for (const bool paused : {true, false}) {
    World world(1, 2, 2);
    for (const NodeIndex only : {0u, 2u}) {
      Open(world, {only});
      world.Submit("half-" + std::to_string(only), 1, 4, "", Lasts(hours(90)));
    }
    Open(world, {0, 1, 2, 3});
    world.Pass(hours(40));  // a budget is a part of the time gone by
    const auto in_a_leaf = [](JobRequest& job) { job.required = kLeafTier; };
    world.Submit("gang", 2, 8, "", in_a_leaf);
    ASSERT_TRUE(world.Runs("gang"));
    ASSERT_EQ(world.Count(DecisionKind::kMove), 1u);
    const NodeIndex freed = world.NodesOf("gang")[0] / 2 * 2;
    world.End("gang");
    // A leaf with a job that stays; the other one is free once both halves have left it.
    Open(world, {freed});
    world.Submit("wall", 1, 8, "", [](JobRequest& job) {
      job.preemption = Preemption::kNever;
      job.limit = hours(90);
    });
    Open(world, {0, 1, 2, 3});
    world.Pass(paused ? minutes(15) : Policy{}.move_pause + minutes(15));
    world.Submit("again", 2, 8, "", in_a_leaf);
    EXPECT_EQ(world.Runs("again"), !paused);
    EXPECT_EQ(world.Count(DecisionKind::kEvict) + world.Count(DecisionKind::kSuspend), 0u);
  }
}

// A limit that was lowered: one job of the queue is not enough, unless it is the dearest.
TEST(Limits, AOneGpuJobOfAQueueAboveItsLimitStopsTheCheapestJobsTogether) {
  for (const bool large_may_stop : {true, false}) {
    SCOPED_TRACE(large_may_stop);
    spec::QueueSpec queue;
    queue.name = "a";
    World world(1, 1, 1, {queue});
    world.Submit("small-1", 1, 2, "a");
    world.Submit("small-2", 1, 2, "a");
    world.Submit("large", 1, 4, "a", [&](JobRequest& job) {
      job.restart_cost = hours(1);
      if (!large_may_stop) job.preemption = Preemption::kNever;
    });
    world.Pass(minutes(1));
    spec::SharedAmounts lower = spec::kUnlimitedAmounts;
    lower[0] = 6 * kWholeGpu;
    world.scheduler.Apply(QueueLimitSet{"a", lower}, world.now);
    world.Submit("urgent", 1, 1, "a", [](JobRequest& job) { job.priority = 1; });
    EXPECT_TRUE(world.Runs("urgent"));
    EXPECT_TRUE(world.Runs("large"));
    EXPECT_EQ(world.Count(DecisionKind::kEvict), 2u);
  }
}

TEST(Limits, ALoweredLimitHoldsForWhatReplacesLostTasks) {
  spec::QueueSpec queue;
  queue.name = "a";
  World world(1, 1, 4, {queue});
  world.Submit("pair", 2, 8, "a");
  world.Pass(minutes(1));
  spec::SharedAmounts lower = spec::kUnlimitedAmounts;
  lower[0] = 12 * kWholeGpu;
  world.scheduler.Apply(QueueLimitSet{"a", lower}, world.now);
  EXPECT_TRUE(world.scheduler.Decide(world.now).empty()) << "what runs is not stopped";
  world.Tell(NodeChanged{world.NodeName(world.NodesOf("pair")[0]), spec::NodeCondition::kDown});
  EXPECT_EQ(world.Count(DecisionKind::kRepair), 0u) << "with a third node the queue would hold 16";
  EXPECT_FALSE(world.Runs("pair"));
}

// The parent's whole guarantee is used by a sibling whose nodes are of no use, and what the cluster
// has beside them is borrowed.
TEST(Limits, AQueueClaimsWhatOthersBorrowedOnceItsParentHasItsGuaranteeBack) {
  for (const int gpus : {1, 4}) {
    for (const bool cordoned : {true, false}) {
      std::vector<spec::QueueSpec> queues(4);
      queues[0].name = "lab";
      queues[0].guarantee[0] = 8'000;
      queues[1].name = "own";
      queues[1].parent = "lab";
      queues[1].guarantee[0] = 4'000;
      queues[2].name = "sibling";
      queues[2].parent = "lab";
      queues[3].name = "other";
      World world(1, 1, 2, queues);
      world.Submit("sibling", 2, 4, "sibling");
      world.Submit("other", 1, 8, "other");
      ASSERT_TRUE(world.Runs("sibling") && world.Runs("other"));
      ASSERT_NE(world.NodesOf("sibling"), world.NodesOf("other"));
      world.Pass(hours(2));
      if (cordoned) Open(world, {world.NodesOf("other")[0]});
      world.Submit("own", 1, gpus, "own");
      EXPECT_TRUE(world.Runs("own")) << gpus << " GPUs";
      EXPECT_FALSE(world.Runs("sibling"));
      EXPECT_EQ(world.Runs("other"), !cordoned) << gpus << " GPUs";
      EXPECT_TRUE(world.scheduler.CheckGuarantees(world.now).ok());
    }
  }
}

}  // namespace
}  // namespace longhaul::scheduler
