#include "scheduler/scheduler.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "scheduler/scheduler_fixture.h"

namespace longhaul::scheduler::scheduler_test {
namespace {

using std::chrono::hours;
using std::chrono::minutes;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

spec::QueueSpec Queue(const std::string& name, int64_t guarantee, const std::string& parent = "") {
  spec::QueueSpec queue;
  queue.name = name;
  queue.parent = parent;
  queue.guarantee[0] = guarantee * 1000;
  return queue;
}

TEST(Scheduler, StartsAGangWholeOnTheFewestLeaves) {
  World world(2, 2, 2);
  world.Submit("small", 1, 8);
  world.Submit("gang", 2, 8);
  ASSERT_TRUE(world.Runs("gang"));
  const std::vector<NodeIndex> nodes = world.NodesOf("gang");
  EXPECT_EQ(nodes[0] / 2, nodes[1] / 2) << "one leaf";
  EXPECT_NE(nodes[0] / 2, world.NodesOf("small")[0] / 2);
}

TEST(Scheduler, StartsNoPartOfAGang) {
  World world(1, 1, 2);
  world.Submit("gang", 3, 8);
  EXPECT_EQ(world.Stage("gang"), JobStage::kUnknown);
  ASSERT_EQ(world.decisions.size(), 1u);
  EXPECT_EQ(world.decisions[0].kind, DecisionKind::kReject);
  EXPECT_THAT(world.decisions[0].reason,
              HasSubstr("needs 3 tasks of 8 GPUs; the largest size that fits this cluster is 2"));
}

TEST(Scheduler, RefusesWhatTheClusterCannotMean) {
  World world(1, 1, 2, {Queue("a", 4)});
  JobRequest job = world.Request("x", 1, 8, "b");
  EXPECT_THAT(world.scheduler.CheckSubmission(job).message(),
              HasSubstr("names queue 'b', which does not exist"));
  job.queue = "a";
  EXPECT_TRUE(world.scheduler.CheckSubmission(job).ok());
  job.groups[0].slice = 3;
  EXPECT_THAT(world.scheduler.CheckSubmission(job).message(), HasSubstr("slices of 3 tasks"));
  job.groups[0].slice = 1;
  job.groups[0].minimum = job.groups[0].desired = 2;
  job.groups[0].required = kHostTier;
  EXPECT_THAT(world.scheduler.CheckSubmission(job).message(),
              HasSubstr("the largest size that fits one of its domains is 1"));
}

TEST(Scheduler, PlacesNestedGroupsTogetherOrNotAtAll) {
  World world(1, 2, 2);
  world.Occupy({0});
  JobRequest job = world.Request("pair", 1, 8);
  job.groups.push_back(job.groups[0]);
  job.groups[1].name = "leader";
  job.groups[1].shape.gpus = 4;
  job.required = kLeafTier;
  world.Submit(job);
  ASSERT_TRUE(world.Runs("pair"));
  EXPECT_THAT(world.NodesOf("pair"), ElementsAre(::testing::Ge(2u), ::testing::Ge(2u)));
  job.id = JobId("again");
  world.Submit(job);
  EXPECT_EQ(world.Stage("again"), JobStage::kWaiting) << "no leaf holds both";
}

TEST(Scheduler, UndoesAStartThatNobodyConfirms) {
  World world(1, 1, 1);
  world.obedient = false;
  world.Submit("a", 1, 8);
  EXPECT_EQ(world.Stage("a"), JobStage::kAssumed);
  ASSERT_TRUE(world.scheduler.NextDeadline().has_value());
  world.now = *world.scheduler.NextDeadline();
  world.Round();
  EXPECT_EQ(world.Count(DecisionKind::kUndo), 1u);
  EXPECT_EQ(world.Stage("a"), JobStage::kLeaving) << "what was bound has to go first";
  world.Tell(JobStopped{JobId("a")});
  EXPECT_EQ(world.Stage("a"), JobStage::kAssumed) << "it has kept its place";
}

TEST(Scheduler, PlacesARefusedTaskElsewhereAndKeepsTheRest) {
  World world(1, 1, 3);
  world.obedient = false;
  world.Submit("gang", 2, 8);
  const std::vector<NodeIndex> before = world.NodesOf("gang");
  world.Tell(TaskRefused{JobId("gang"), world.decisions.back().transaction, 1});
  ASSERT_EQ(world.decisions.back().kind, DecisionKind::kRepair);
  const std::vector<NodeIndex> after = world.NodesOf("gang");
  EXPECT_EQ(after[0], before[0]);
  EXPECT_NE(after[1], before[1]) << "not where it was refused";
}

TEST(Scheduler, RepairsAGangFromASpareBeforeAnythingElse) {
  World world(1, 2, 2);
  world.Tell(NodeChanged{world.NodeName(1), spec::NodeCondition::kSpare});
  world.Submit("gang", 2, 8, "", [](JobRequest& job) { job.required = kBlockTier; });
  const std::vector<NodeIndex> before = world.NodesOf("gang");
  world.Tell(NodeChanged{world.NodeName(before[0]), spec::NodeCondition::kDown});
  EXPECT_TRUE(world.Runs("gang"));
  EXPECT_EQ(world.Count(DecisionKind::kRepair), 1u);
  EXPECT_EQ(world.Count(DecisionKind::kEvict), 0u);
}

TEST(Scheduler, LetsAGangGoOnWithFewerWhenItMay) {
  World world(1, 1, 3);
  world.Submit("elastic", 1, 8, "", [](JobRequest& job) { job.groups[0].desired = 3; });
  EXPECT_EQ(world.NodesOf("elastic").size(), 3u);
  world.Tell(NodeChanged{world.NodeName(2), spec::NodeCondition::kDown});
  EXPECT_EQ(world.NodesOf("elastic").size(), 2u);
  EXPECT_EQ(world.Count(DecisionKind::kShrink), 1u);
  world.Pass(minutes(10));
  world.Tell(NodeChanged{world.NodeName(2), spec::NodeCondition::kReady});
  EXPECT_EQ(world.NodesOf("elastic").size(), 3u);
  EXPECT_EQ(world.Count(DecisionKind::kGrow), 1u);
}

TEST(Scheduler, TakesBackAGuaranteeFromTheCheapestBorrower) {
  World world(1, 1, 2, {Queue("a", 8), Queue("b", 8)});
  world.Submit("old", 1, 8, "b");
  world.Pass(hours(5));
  world.Submit("young", 1, 8, "b");
  world.Pass(minutes(1));
  world.Submit("entitled", 1, 8, "a");
  EXPECT_TRUE(world.Runs("entitled"));
  EXPECT_TRUE(world.Runs("old")) << "it has more to lose";
  EXPECT_EQ(world.Stage("young"), JobStage::kWaiting);
}

// No round stops what it has begun itself; who has a claim to it is not left waiting for that.
TEST(Scheduler, LooksAgainForAClaimThatItsOwnStartsWereSparedFrom) {
  Policy policy;
  policy.reservations = 0;
  World world(1, 1, 2, {Queue("a", 16), Queue("b", 0)}, policy);
  world.Submit("old", 1, 8, "b");
  world.scheduler.Apply(JobSubmitted{world.Request("entitled", 2, 8, "a")}, world.now);
  world.scheduler.Apply(JobSubmitted{world.Request("young", 1, 8, "b")}, world.now);
  world.scheduler.Decide(world.now);
  EXPECT_EQ(world.Stage("young"), JobStage::kAssumed);
  EXPECT_EQ(world.Stage("entitled"), JobStage::kWaiting);
  ASSERT_TRUE(world.scheduler.NextDeadline().has_value());
  EXPECT_LE(*world.scheduler.NextDeadline(), world.now + std::chrono::seconds(1));
  world.scheduler.Decide(world.now);
  EXPECT_EQ(world.Stage("entitled"), JobStage::kAssumed);
}

TEST(Scheduler, TakesNothingFromWhatAnOperatorHasPutFirst) {
  for (const bool expedited : {false, true}) {
    for (const int32_t gpus : {4, 8}) {
      World world(1, 1, 1, {Queue("a", 8), Queue("b", 0)});
      world.Submit("own", 1, 8, "a", [](JobRequest& job) { job.preemption = Preemption::kNever; });
      world.Submit("guest", 8 / gpus, gpus, "b");
      if (expedited) world.Tell(JobExpedited{JobId("guest")});
      world.End("own");
      ASSERT_TRUE(world.Runs("guest"));
      world.Submit("entitled", 1, gpus, "a");
      EXPECT_EQ(world.Runs("guest"), expedited);
      EXPECT_EQ(world.Runs("entitled"), !expedited);
      EXPECT_TRUE(world.scheduler.CheckGuarantees(world.now).ok());
    }
  }
}

TEST(Scheduler, NeverTakesAGuaranteeAway) {
  World world(1, 1, 2, {Queue("a", 8), Queue("b", 8)});
  world.Submit("b1", 1, 8, "b");
  world.Submit("a1", 1, 8, "a");
  world.Submit("a2", 1, 8, "a", [](JobRequest& job) { job.priority = 100; });
  EXPECT_TRUE(world.Runs("b1"));
  EXPECT_TRUE(world.Runs("a2")) << "by priority within its own queue";
  EXPECT_EQ(world.Stage("a1"), JobStage::kWaiting);
}

// Volcano #4533, kueue #10815: what is freed must lie where the gang's rule wants it.
TEST(Scheduler, StopsOnlyVictimsWhoseNodesServeTheRequiredLeaf) {
  World world(1, 2, 2, {Queue("a", 16), Queue("b", 16)});
  for (const char* name : {"b1", "b2", "b3", "b4"}) world.Submit(name, 1, 8, "b");
  world.Submit("gang", 2, 8, "a", [](JobRequest& job) { job.required = kLeafTier; });
  ASSERT_TRUE(world.Runs("gang"));
  EXPECT_EQ(world.Count(DecisionKind::kEvict), 2u);
  const std::vector<NodeIndex> nodes = world.NodesOf("gang");
  EXPECT_EQ(nodes[0] / 2, nodes[1] / 2);
}

TEST(Scheduler, StopsNobodyForAGangThatStillCannotLand) {
  World world(1, 2, 2, {Queue("a", 16), Queue("b", 16)});
  // A host of each leaf is held by someone who may not be stopped.
  world.Submit("b1", 2, 8, "b", [](JobRequest& job) {
    job.preemption = Preemption::kNever;
    job.groups[0].max_per_domain = 1;
  });
  world.Submit("b2", 1, 8, "b");
  world.Submit("b3", 1, 8, "b");
  world.Submit("gang", 2, 8, "a", [](JobRequest& job) { job.required = kLeafTier; });
  EXPECT_EQ(world.Stage("gang"), JobStage::kWaiting);
  EXPECT_EQ(world.Count(DecisionKind::kEvict), 0u);
}

TEST(Scheduler, ShrinksBeforeItStops) {
  World world(1, 1, 3, {Queue("a", 8), Queue("b", 8)});
  world.Submit("elastic", 1, 8, "b", [](JobRequest& job) {
    job.groups[0].desired = 3;
    job.preemption = Preemption::kShrink;
  });
  EXPECT_EQ(world.NodesOf("elastic").size(), 3u);
  world.Submit("entitled", 1, 8, "a");
  EXPECT_TRUE(world.Runs("entitled"));
  EXPECT_EQ(world.NodesOf("elastic").size(), 2u);
  EXPECT_EQ(world.Count(DecisionKind::kEvict), 0u);
}

TEST(Scheduler, StopsNoJobMoreOftenThanItsBudget) {
  Policy policy;
  policy.evictions_a_day = 2;
  World world(1, 1, 1, {Queue("a", 8), Queue("b", 0)}, policy);
  world.Submit("victim", 1, 8, "b");
  for (int i = 0; i < 4; ++i) {
    const std::string name = "a" + std::to_string(i);
    world.Pass(minutes(10));
    world.Submit(name, 1, 8, "a");
    EXPECT_EQ(world.Runs(name), i < 2) << i;
    world.End(name);
    EXPECT_TRUE(world.Runs("victim"));
  }
  world.Pass(hours(25));
  world.Submit("next day", 1, 8, "a");
  EXPECT_TRUE(world.Runs("next day"));
}

TEST(Scheduler, TellsAWinnerWhomItHasToWaitFor) {
  World world(1, 1, 1, {Queue("a", 8), Queue("b", 0)});
  world.Submit("victim", 1, 8, "b");
  world.obedient = false;
  world.Submit("winner", 1, 8, "a");
  const Decision& start = world.decisions.back();
  EXPECT_EQ(start.kind, DecisionKind::kStart);
  EXPECT_THAT(start.after, ElementsAre(JobId("victim")));
  EXPECT_EQ(start.transaction, world.decisions[world.decisions.size() - 2].transaction);
  // Nobody takes the place while the winner lives; it is free once it is gone.
  world.Submit("thief", 1, 8, "b");
  EXPECT_EQ(world.Stage("thief"), JobStage::kWaiting);
}

TEST(Scheduler, BackfillsOnlyWhatDelaysNoReservation) {
  Policy policy;
  policy.reservation_idle_milli = 0;
  World world(1, 1, 2, {}, policy);
  const auto lasts = [](int time) { return [time](JobRequest& job) { job.limit = hours(time); }; };
  world.Submit("half", 1, 8, "", lasts(2));
  world.Submit("gang", 2, 8, "", lasts(1));
  world.Submit("long", 1, 8, "", lasts(3));
  world.Submit("short", 1, 8, "", lasts(2));
  EXPECT_EQ(world.Stage("gang"), JobStage::kWaiting);
  EXPECT_EQ(world.Stage("long"), JobStage::kWaiting);
  EXPECT_TRUE(world.Runs("short"));
  world.Pass(hours(2));
  world.Tell(JobEnded{JobId("half")});
  world.Tell(JobEnded{JobId("short")});
  EXPECT_TRUE(world.Runs("gang"));
}

// Three hosts: a job of the red queue, one of the blue queue, and an idle one that is kept for a
// gang of the blue queue, which is above its guarantee.
World WithAHostKeptForAGang(Duration low_lasts = hours(2)) {
  World world(1, 1, 3, {Queue("red", 8), Queue("blue", 0)});
  const auto lasts = [](int time) { return [time](JobRequest& job) { job.limit = hours(time); }; };
  world.Submit("low", 1, 8, "red", [&](JobRequest& job) { job.limit = low_lasts; });
  world.Submit("other", 1, 8, "blue", lasts(2));
  world.Submit("gang", 3, 8, "blue", lasts(2));
  EXPECT_EQ(world.Count(DecisionKind::kReserve), 1u);
  return world;
}

void Urgent(JobRequest& job) {
  job.priority = 100;
  job.limit = hours(10);
}

TEST(Scheduler, AHigherPriorityReplacesALowerOneOfItsQueueBesideAReservation) {
  World world = WithAHostKeptForAGang();
  world.Pass(hours(1));
  world.Submit("urgent", 1, 8, "red", Urgent);
  EXPECT_TRUE(world.Runs("urgent"));
  EXPECT_EQ(world.Stage("low"), JobStage::kWaiting) << "it would not end before the gang starts";
  EXPECT_TRUE(world.Runs("other"));
  EXPECT_EQ(world.scheduler.state().cluster().free_gpus, 8u) << "kept for the gang";
}

TEST(Scheduler, TheIdleGpusOfAReservationAreNotUsedForAHigherPriorityOfAnotherQueue) {
  World world(1, 1, 3, {Queue("red", 8), Queue("blue", 0)});
  const auto lasts = [](int time) { return [time](JobRequest& job) { job.limit = hours(time); }; };
  world.Submit("low", 1, 4, "red", lasts(2));
  world.Submit("other", 1, 8, "blue", lasts(2));
  world.Submit("gang", 3, 8, "blue", lasts(2));
  world.Pass(hours(1));
  world.Submit("urgent", 1, 8, "red", Urgent);
  EXPECT_EQ(world.Stage("urgent"), JobStage::kWaiting) << "half of its GPUs are kept for the gang";
  EXPECT_TRUE(world.Runs("low"));
}

TEST(Scheduler, WhatIsReplacedBesideAReservationMovesToTheKeptHostIfItEndsInTime) {
  World world = WithAHostKeptForAGang(hours(2) - JobRequest{}.restart_cost);
  world.Submit("urgent", 1, 8, "red", Urgent);
  EXPECT_TRUE(world.Runs("urgent"));
  EXPECT_TRUE(world.Runs("low"));
  EXPECT_EQ(world.Count(DecisionKind::kMove), 1u);
  EXPECT_EQ(world.Count(DecisionKind::kEvict), 0u);
}

TEST(Scheduler, AJobWhoseLastTasksRunStillDoesNotBlockAnotherLikeIt) {
  World world(1, 1, 2);
  world.obedient = false;  // nobody confirms or stops anything
  world.Submit("first", 1, 8);
  world.Pass(hours(1));
  world.Round();
  ASSERT_EQ(world.Stage("first"), JobStage::kLeaving) << "its start was not confirmed in time";
  world.Submit("second", 1, 8);
  EXPECT_EQ(world.Stage("second"), JobStage::kAssumed);
}

TEST(Scheduler, ServesStrictlyInOrderWithoutBackfill) {
  Policy policy;
  policy.backfill = Backfill::kNone;
  World world(1, 1, 2, {}, policy);
  world.Submit("half", 1, 8);
  world.Submit("gang", 2, 8);
  world.Submit("short", 1, 8);
  EXPECT_EQ(world.Stage("short"), JobStage::kWaiting);
}

TEST(Scheduler, RaisesWithWaitingButNeverPastAGuarantee) {
  Policy policy;
  policy.aging_period = hours(1);
  policy.shorter_first = Duration(0);  // or the place of "aged", from which it ages, is later
  World world(1, 1, 1, {Queue("a", 8), Queue("b", 0)}, policy);
  world.Submit("running", 1, 8, "a", [](JobRequest& job) { job.preemption = Preemption::kNever; });
  world.Submit("aged", 1, 8, "a");
  world.Submit("stranger", 1, 8, "b");
  world.Pass(hours(5));
  world.Submit("urgent", 1, 8, "a", [](JobRequest& job) { job.priority = 3; });
  world.End("running");
  EXPECT_TRUE(world.Runs("aged")) << "five hours are worth more than three steps";
}

// The place of "long" is 6 hours after its submission, that of "short" 10 minutes after its own.
TEST(Scheduler, PutsShorterJobsOfAQueueFirstWithinABound) {
  struct Case {
    Duration between;
    spec::QueueOrder order;
    const char* first;
  };
  for (const Case& each : {Case{minutes(1), spec::QueueOrder::kPriority, "short"},
                           Case{hours(5), spec::QueueOrder::kPriority, "short"},
                           Case{hours(6), spec::QueueOrder::kPriority, "long"},
                           Case{minutes(1), spec::QueueOrder::kFirstCome, "long"}}) {
    spec::QueueSpec queue = Queue("a", 8);
    queue.order = each.order;
    World world(1, 1, 1, {queue});
    world.Submit("running", 1, 8, "a");
    world.Submit("long", 1, 8, "a", [](JobRequest& job) { job.limit = hours(100); });
    world.Pass(each.between);
    world.Submit("short", 1, 8, "a", [](JobRequest& job) { job.limit = minutes(10); });
    world.End("running");
    EXPECT_TRUE(world.Runs(each.first)) << each.between / minutes(1) << " minutes";
  }
}

TEST(Scheduler, KeepsANodeThatFailsOffLongWork) {
  World world(1, 1, 2);
  for (int i = 0; i < 2; ++i) world.Tell(NodeFaulted{world.NodeName(0)});
  world.Submit("long", 1, 8);
  EXPECT_THAT(world.NodesOf("long"), ElementsAre(1u));
  world.Submit("longer", 1, 8);
  EXPECT_EQ(world.Stage("longer"), JobStage::kWaiting);
  world.Submit("short", 1, 8, "", [](JobRequest& job) { job.limit = minutes(30); });
  EXPECT_THAT(world.NodesOf("short"), ElementsAre(0u)) << "on probation";
  world.End("short");
  world.Pass(hours(100));
  world.Round();
  EXPECT_TRUE(world.Runs("longer")) << "it has healed";
}

TEST(Scheduler, SuspectsTheSwitchWhenALeafLosesSeveralNodes) {
  World world(1, 2, 5);
  for (NodeIndex node = 0; node < 3; ++node) {
    world.Tell(NodeChanged{world.NodeName(node), spec::NodeCondition::kDown});
  }
  EXPECT_EQ(world.scheduler.state().node(3).condition, spec::NodeCondition::kSuspect);
  EXPECT_EQ(world.scheduler.state().node(5).condition, spec::NodeCondition::kReady);
}

TEST(Scheduler, GoesOnWhereItsStepsRanOut) {
  World world(1, 1, 4);
  for (int i = 0; i < 4; ++i) {
    world.scheduler.Apply(JobSubmitted{world.Request("j" + std::to_string(i), 1, 8)}, world.now);
  }
  size_t started = 0;
  int rounds = 0;
  do {
    started += world.scheduler.Decide(world.now, 1).size();
    ++rounds;
  } while (world.scheduler.unfinished() && rounds < 20);
  EXPECT_EQ(started, 4u);
  EXPECT_GE(rounds, 4);
}

TEST(Scheduler, GivesLeastSlackItsTurnFirst) {
  World world(1, 1, 1);
  world.Submit("running", 1, 8);
  world.Submit("whenever", 1, 8);
  world.Submit("soon", 1, 8, "", [&](JobRequest& job) {
    job.limit = hours(1);
    job.deadline = world.now + minutes(30);
  });
  world.End("running");
  EXPECT_TRUE(world.Runs("soon"));
}

}  // namespace
}  // namespace longhaul::scheduler::scheduler_test
