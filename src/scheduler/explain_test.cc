#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <string_view>
#include <tuple>
#include <variant>

#include "scheduler/explanation.h"
#include "scheduler/scheduler.h"
#include "scheduler/scheduler_fixture.h"

namespace longhaul::scheduler {
namespace {

using ::testing::HasSubstr;

// The fix, applied to the scheduler itself, starts the job in its next round, and when all have
// carried out their decisions, it runs.
bool FixStarts(const Scheduler& scheduler, const JobId& job, const Explanation& why, Instant now) {
  World trial(scheduler, now);
  for (const Event& event : why.fix) trial.scheduler.Apply(event, now);
  trial.decisions = trial.scheduler.Decide(now);
  if (trial.Stage(job.value()) != JobStage::kAssumed) return false;
  const std::vector<Decision> decided = trial.decisions;
  for (const Decision& decision : decided) trial.Answer(decision);
  trial.Round();
  return trial.Runs(job.value());
}

TEST(Explain, NamesTheQuotaAndByHowMuchToRaiseIt) {
  spec::QueueSpec queue;
  queue.name = "research";
  queue.limit[0] = 16'000;
  World world(1, 2, 2, {queue});
  world.Submit("running", 2, 8, "research");
  world.Submit("waiting", 1, 4, "research");
  const Explanation why = world.Explain("waiting");
  EXPECT_EQ(why.reason, WaitReason::kQuota);
  EXPECT_THAT(why.sentence,
              HasSubstr("queue 'research' uses 16 accelerators of its limit of 16 accelerators and "
                        "the job needs 4 accelerators"));
  ASSERT_EQ(why.fix_texts.size(), 1u);
  EXPECT_EQ(why.fix_texts[0],
            "raise the limit of queue 'research' from 16 accelerators to 20 accelerators");
  EXPECT_TRUE(FixStarts(world.scheduler, JobId("waiting"), why, world.now));
}

TEST(Explain, NamesALooserTopologyWhenTheLeafIsTheReason) {
  World world(1, 2, 2);
  world.Occupy({0, 2});  // a host of each leaf
  JobRequest job = world.Request("gang", 2, 8);
  job.groups[0].required = kLeafTier;
  world.Submit(job);
  const Explanation why = world.Explain("gang");
  EXPECT_EQ(why.reason, WaitReason::kNoRoom);
  EXPECT_THAT(why.sentence, HasSubstr("2 tasks of 8 GPUs are needed in one leaf; 1 fit in the "
                                      "best one, 2 in all"));
  EXPECT_EQ(why.fix_texts, std::vector<std::string>{"require one block instead of one leaf"});
  EXPECT_TRUE(FixStarts(world.scheduler, JobId("gang"), why, world.now)) << ToJson(why);
}

TEST(Explain, NamesTheVictimOrFewerGpus) {
  World world(1, 1, 2);
  world.Submit("a", 1, 8);
  world.Submit("b", 1, 8);
  world.Submit("gang", 2, 8);
  const Explanation why = world.Explain("gang");
  EXPECT_EQ(why.reason, WaitReason::kNoRoom);
  ASSERT_FALSE(why.fix.empty());
  EXPECT_THAT(why.fix_texts[0], HasSubstr("stop "));
  EXPECT_TRUE(FixStarts(world.scheduler, JobId("gang"), why, world.now));
  // With one host free, one task less is the smaller disturbance.
  world.End("a");
  const Explanation then = world.Explain("gang");
  ASSERT_EQ(then.fix_texts.size(), 1u);
  EXPECT_EQ(then.fix_texts[0], "run it with 1 task instead of 2 tasks");
}

TEST(Explain, NamesTheNodeToBringBack) {
  World world(1, 1, 2);
  world.Tell(NodeChanged{world.NodeName(1), spec::NodeCondition::kCordoned});
  world.Submit("gang", 2, 8);
  const Explanation why = world.Explain("gang");
  ASSERT_EQ(why.fix_texts.size(), 1u);
  EXPECT_EQ(why.fix_texts[0], "bring back " + world.NodeName(1) + ", which is cordoned");
  EXPECT_TRUE(FixStarts(world.scheduler, JobId("gang"), why, world.now));
}

// What a queue keeps for itself is kept of the nodes that are up: a node that the job itself has no
// use for lets the others be lent.
TEST(Explain, NamesTheNodeWhoseCapacityIsMissing) {
  spec::ClusterDeclaration cluster = spec::ClosCluster(1, 1, 2);
  cluster.models.push_back({"small", 16 * 1024});
  cluster.kinds.push_back(spec::UniformKind(
      "small", static_cast<uint16_t>(cluster.models.size() - 1), 4, 1, 64'000, 256 * 1024));
  cluster.nodes[1].kind = static_cast<uint32_t>(cluster.kinds.size() - 1);
  const auto topology = spec::Topology::Create(cluster);
  ASSERT_TRUE(topology.ok()) << topology.status();
  spec::QueueSpec keeper;
  keeper.name = "keeper";
  keeper.guarantee[0] = 2'000;
  keeper.lend[0] = 0;
  spec::QueueSpec guest;
  guest.name = "guest";
  const auto made = Scheduler::Create(*topology, {keeper, guest}, Policy());
  ASSERT_TRUE(made.ok()) << made.status();
  World world(*made, InstantFromNanoseconds(1'000'000'000));
  world.Tell(NodeChanged{world.NodeName(1), spec::NodeCondition::kDown});
  world.Submit("visit", 1, 8, "guest");
  const Explanation why = world.Explain("visit");
  EXPECT_EQ(why.reason, WaitReason::kQuota);
  EXPECT_EQ(why.fix_texts,
            std::vector<std::string>{"bring back " + world.NodeName(1) + ", which is down"});
  EXPECT_TRUE(FixStarts(world.scheduler, JobId("visit"), why, world.now)) << ToJson(why);
  // Its room is free: only nobody knows when the queues lend again.
  EXPECT_FALSE(why.expected_start.has_value()) << why.sentence;
}

TEST(Explain, NamesWhoseReservationItIsAndWhen) {
  World world(1, 1, 2);
  world.Submit("half", 1, 8, "", [](JobRequest& job) { job.limit = std::chrono::hours(2); });
  world.Submit("gang", 2, 8, "", [](JobRequest& job) { job.limit = std::chrono::hours(1); });
  world.Submit("long", 1, 8, "", [](JobRequest& job) { job.limit = std::chrono::hours(3); });
  const Explanation gang = world.Explain("gang");
  ASSERT_TRUE(gang.expected_start.has_value());
  EXPECT_EQ(*gang.expected_start, world.now + std::chrono::hours(2));
  const Explanation why = world.Explain("long");
  EXPECT_EQ(why.reason, WaitReason::kReservation);
  EXPECT_THAT(why.sentence, HasSubstr("room is held for gang"));
  EXPECT_EQ(why.fix_texts, std::vector<std::string>{"put it before all other jobs"});
  EXPECT_TRUE(FixStarts(world.scheduler, JobId("long"), why, world.now));
  ASSERT_TRUE(why.expected_start.has_value());
  EXPECT_EQ(*why.expected_start, world.now + std::chrono::hours(3)) << "after the gang";
}

// Who is stopped for it has a right to come back, so that stopping him alone is no fix.
TEST(Explain, NamesAFixThatTheNextRoundDoesNotTakeBack) {
  spec::QueueSpec owner;
  owner.name = "owner";
  owner.guarantee[0] = 16'000;
  spec::QueueSpec guest;
  guest.name = "guest";
  World world(1, 1, 2, {owner, guest});
  world.Submit("own", 2, 8, "owner");
  world.Submit("visit", 1, 8, "guest");
  const Explanation why = world.Explain("visit");
  EXPECT_EQ(why.fix_texts, (std::vector<std::string>{"put it before all other jobs", "stop own"}));
  EXPECT_TRUE(FixStarts(world.scheduler, JobId("visit"), why, world.now));
  // What would be else: it starts, and is stopped again.
  World trial(world.scheduler, world.now);
  trial.Tell(JobEvictionAsked{JobId("own")});
  EXPECT_TRUE(std::any_of(trial.decisions.begin(), trial.decisions.end(), [](const Decision& each) {
    return each.kind == DecisionKind::kStart && each.job == JobId("visit");
  }));
  EXPECT_FALSE(trial.Runs("visit"));
}

// These fill a host; half of the other one is held by a job that is too dear to be stopped. "whole"
// waits for a host.
void FillTwoHosts(World& world, const std::vector<std::tuple<const char*, int, const char*>>& jobs,
                  const char* queue) {
  const auto with = [](int32_t priority, Preemption preemption) {
    return [=](JobRequest& job) {
      job.priority = priority;
      job.preemption = preemption;
    };
  };
  for (const auto& [name, gpus, of] : jobs) {
    const int32_t priority = std::string_view(name) == "claimant" ? 1 : 0;
    world.Submit(name, 1, gpus, of, with(priority, Preemption::kNever));
  }
  world.Submit("dear", 1, 4, "", with(1'000, Preemption::kNever));
  world.Submit("whole", 1, 8, queue, with(0, Preemption::kRequeue));
}

// Whether it has its node after the stops of its fix, with or without its other changes, when the
// others say that they stopped in this order.
bool KeepsItsNode(const World& world, const Explanation& why, bool all,
                  const std::vector<const char*>& order) {
  Scheduler trial = world.scheduler.Copy();
  for (const Event& event : why.fix) {
    if (all || std::holds_alternative<JobEvictionAsked>(event)) trial.Apply(event, world.now);
  }
  trial.Decide(world.now);
  EXPECT_EQ(trial.StageOf(JobId("whole")), JobStage::kAssumed);
  for (const char* name : order) {
    trial.Apply(JobStopped{JobId(name)}, world.now);
    trial.Decide(world.now);
  }
  return trial.StageOf(JobId("whole")) == JobStage::kAssumed;
}

// Who is stopped comes back in any order: the room that one of them would find the other may have
// taken by then, and so he takes what the fix has started.
TEST(Explain, NamesAFixThatHoldsInWhateverOrderTheOthersStop) {
  World world(1, 1, 2);
  FillTwoHosts(world, {{"claimant", 4, ""}, {"other", 4, ""}}, "");
  const Explanation why = world.Explain("whole");
  EXPECT_EQ(why.fix_texts,
            (std::vector<std::string>{"put it before all other jobs", "stop other, claimant"}));
  EXPECT_TRUE(KeepsItsNode(world, why, true, {"claimant", "other"}));
  EXPECT_TRUE(KeepsItsNode(world, why, true, {"other", "claimant"}));
  EXPECT_TRUE(KeepsItsNode(world, why, false, {"claimant", "other"}));
  EXPECT_FALSE(KeepsItsNode(world, why, false, {"other", "claimant"}));
}

// Of so many the orders are not tried.
TEST(Explain, PutsTheJobFirstWhereOneOfManyMayTakeItsNode) {
  World world(1, 1, 2);
  FillTwoHosts(world, {{"claimant", 4, ""}, {"a", 1, ""}, {"b", 1, ""}, {"c", 1, ""}, {"d", 1, ""}},
               "");
  const Explanation why = world.Explain("whole");
  ASSERT_EQ(why.fix_texts.size(), 2u) << ToJson(why);
  EXPECT_EQ(why.fix_texts[0], "put it before all other jobs");
  EXPECT_TRUE(KeepsItsNode(world, why, true, {"a", "b", "c", "d", "claimant"}));
  EXPECT_TRUE(KeepsItsNode(world, why, false, {"claimant", "a", "b", "c", "d"}));
  EXPECT_FALSE(KeepsItsNode(world, why, false, {"a", "b", "c", "d", "claimant"}));
}

// The claimant has no right while the job's queue holds no more than the job.
TEST(Explain, PutsTheJobFirstWhereOneOfManyGetsARightToItsNode) {
  spec::QueueSpec owner;
  owner.name = "owner";
  owner.guarantee[0] = 1'000;
  spec::QueueSpec guest;
  guest.name = "guest";
  guest.guarantee[0] = 1'000;
  World world(1, 1, 2, {owner, guest});
  FillTwoHosts(world,
               {{"claimant", 1, "owner"},
                {"a", 1, "guest"},
                {"b", 1, "guest"},
                {"c", 1, "guest"},
                {"d", 1, "guest"},
                {"e", 3, "guest"}},
               "guest");
  const Explanation why = world.Explain("whole");
  ASSERT_EQ(why.fix_texts.size(), 2u) << ToJson(why);
  EXPECT_EQ(why.fix_texts[0], "put it before all other jobs");
  EXPECT_TRUE(KeepsItsNode(world, why, true, {"a", "b", "c", "d", "claimant", "e"}));
  EXPECT_FALSE(KeepsItsNode(world, why, false, {"a", "b", "c", "d", "claimant", "e"}));
}

TEST(Explain, SaysTheSameForTheSameState) {
  World world(1, 1, 2);
  world.Submit("a", 2, 8);
  world.Submit("b", 2, 8);
  EXPECT_EQ(ToJson(world.Explain("b")), ToJson(world.Explain("b")));
  EXPECT_THAT(ToJson(world.Explain("b")), HasSubstr(R"("reason":"no-room")"));
}

TEST(Explain, RefusesUnknownJobsAndKnowsRunningOnes) {
  World world(1, 1, 1);
  EXPECT_EQ(world.scheduler.Explain(JobId("x"), world.now).status().code(), Code::kNotFound);
  world.Submit("a", 1, 1);
  EXPECT_EQ(world.Explain("a").reason, WaitReason::kNone);
}

}  // namespace
}  // namespace longhaul::scheduler
