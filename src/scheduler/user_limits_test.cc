// Limits of what each user holds in a queue, and of how long its jobs run.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "scheduler/scheduler_fixture.h"

namespace longhaul::scheduler {
namespace {

using std::chrono::hours;
using std::chrono::minutes;
using ::testing::HasSubstr;

std::vector<spec::QueueSpec> Lab(int64_t gpus, uint32_t running = spec::kUnlimitedJobs) {
  spec::QueueSpec queue;
  queue.name = "lab";
  queue.per_user.running = running;
  if (gpus > 0) queue.per_user.amounts[0] = gpus * 1'000;
  return {queue};
}

std::function<void(JobRequest&)> Of(const std::string& user, int32_t priority = 0) {
  return [=](JobRequest& job) {
    job.owner = user;
    job.priority = priority;
  };
}

std::function<void(JobRequest&)> OfFor(const std::string& user, Duration length) {
  return [=](JobRequest& job) {
    job.owner = user;
    job.limit = length;
  };
}

TEST(UserLimits, LetTheJobsOfOthersPass) {
  World world(1, 1, 4, Lab(0, 1));
  world.Submit("a1", 1, 8, "lab", Of("alice"));
  world.Submit("a2", 1, 8, "lab", Of("alice"));
  world.Submit("a3", 1, 8, "lab", Of("alice"));
  world.Submit("b1", 1, 8, "lab", Of("bob"));
  EXPECT_TRUE(world.Runs("a1"));
  EXPECT_FALSE(world.Runs("a2"));
  EXPECT_TRUE(world.Runs("b1")) << "it is like those of alice in all else";
  world.End("b1");
  EXPECT_FALSE(world.Runs("a2")) << "what bob has given back is not hers";
  world.End("a1");
  EXPECT_TRUE(world.Runs("a2"));
  EXPECT_FALSE(world.Runs("a3"));
}

TEST(UserLimits, CountWhatAUserHoldsInTheQueuesBelow) {
  std::vector<spec::QueueSpec> queues = Lab(8);
  for (const char* name : {"x", "y"}) {
    queues.emplace_back();
    queues.back().name = name;
    queues.back().parent = "lab";
  }
  World world(1, 1, 4, queues);
  world.Submit("a1", 1, 6, "x", Of("alice"));
  world.Submit("a2", 1, 4, "y", Of("alice"));
  world.Submit("a3", 1, 2, "y", Of("alice"));
  EXPECT_FALSE(world.Runs("a2"));
  EXPECT_TRUE(world.Runs("a3"));
  const std::vector<QueueView> views = world.scheduler.Queues();
  ASSERT_EQ(views[1].users.size(), 1u);
  EXPECT_EQ(views[1].users[0].user, "alice");
  EXPECT_EQ(views[1].users[0].amounts[0], 8'000);
  EXPECT_EQ(views[1].users[0].running, 2u);
}

TEST(UserLimits, RefuseAJobThatCouldNeverRun) {
  World world(1, 1, 4, Lab(8));
  JobRequest job = world.Request("a", 2, 8, "lab");
  job.owner = "alice";
  EXPECT_THAT(world.scheduler.CheckSubmission(job).message(),
              HasSubstr("needs 16 accelerators, but queue 'lab' allows each user 8 accelerators"));
}

// A reservation would keep the free nodes from the longer job of another user.
TEST(UserLimits, ABlockedGangHoldsNoReservation) {
  World world(1, 1, 3, Lab(0, 1));
  world.Submit("a1", 1, 8, "lab", OfFor("alice", hours(1)));
  world.Submit("a2", 3, 8, "lab", OfFor("alice", hours(1)));
  EXPECT_EQ(world.Count(DecisionKind::kReserve), 0u);
  world.Submit("b1", 2, 8, "lab", OfFor("bob", hours(9)));
  EXPECT_TRUE(world.Runs("b1"));
}

TEST(UserLimits, AReservationEndsWhenItsUserStartsAnotherJob) {
  World world(1, 1, 3, Lab(0, 1));
  world.Submit("c1", 1, 8, "lab", OfFor("carol", hours(1)));
  world.Submit("a1", 3, 8, "lab", OfFor("alice", hours(1)));
  EXPECT_EQ(world.Count(DecisionKind::kReserve), 1u);
  world.Submit("b1", 1, 8, "lab", OfFor("bob", hours(9)));
  EXPECT_FALSE(world.Runs("b1")) << "the gang is to start in an hour";
  // A short job of the gang's user passes it, and then the gang cannot start in an hour.
  world.Submit("a2", 1, 8, "lab", OfFor("alice", minutes(10)));
  ASSERT_TRUE(world.Runs("a2"));
  world.Round();
  EXPECT_TRUE(world.Runs("b1"));
}

TEST(UserLimits, TheReservationsOfAUserAreWithinTheLimits) {
  World world(1, 1, 2, Lab(0, 1));
  world.Submit("b1", 2, 8, "lab", OfFor("bob", hours(1)));
  for (const char* name : {"a1", "a2", "a3"}) {
    world.Submit(name, 2, 8, "lab", OfFor("alice", hours(1)));
  }
  EXPECT_EQ(world.Count(DecisionKind::kReserve), 1u);
  world.Submit("c1", 2, 8, "lab", OfFor("carol", hours(1)));
  EXPECT_EQ(world.Count(DecisionKind::kReserve), 2u);
}

TEST(UserLimits, AnElasticJobStartsAndGrowsWithinThem) {
  World world(1, 1, 4, Lab(24));
  world.Submit("e", 1, 8, "lab", [](JobRequest& job) {
    job.owner = "alice";
    job.groups[0].desired = 4;
  });
  EXPECT_EQ(world.NodesOf("e").size(), 3u);
  world.Pass(minutes(10));
  world.Round();
  EXPECT_EQ(world.NodesOf("e").size(), 3u) << "a host is free, but it is not hers";

  World small(1, 1, 4, Lab(24));
  small.Submit("other", 2, 8, "lab", Of("alice"));
  small.Submit("e", 1, 8, "lab", [](JobRequest& job) {
    job.owner = "alice";
    job.groups[0].desired = 4;
  });
  EXPECT_EQ(small.NodesOf("e").size(), 1u);
  small.End("other");
  small.Pass(minutes(10));
  small.Round();
  EXPECT_EQ(small.NodesOf("e").size(), 3u);
}

// As with a queue's limit: those of lower priority in the queue, where that helps.
TEST(UserLimits, OnlyJobsOfTheSameUserAreStoppedForAJobThatTheyBlock) {
  World world(1, 1, 4, Lab(8));
  world.Submit("b", 1, 8, "lab", Of("bob", -1));
  world.Submit("a", 1, 8, "lab", Of("alice", 0));
  world.Submit("urgent", 1, 8, "lab", Of("alice", 5));
  EXPECT_TRUE(world.Runs("urgent"));
  EXPECT_TRUE(world.Runs("b"));
  EXPECT_FALSE(world.Runs("a"));
  world.Submit("equal", 1, 8, "lab", Of("alice", 5));
  EXPECT_FALSE(world.Runs("equal"));
  EXPECT_TRUE(world.Runs("urgent"));
  EXPECT_TRUE(world.Runs("b")) << "to stop it would not help";
  EXPECT_EQ(world.Count(DecisionKind::kEvict), 1u);
}

TEST(UserLimits, AreExplainedWithAFixThatStartsTheJob) {
  World world(1, 1, 4, Lab(8, 5));
  world.Submit("a1", 1, 6, "lab", Of("alice"));
  world.Pass(minutes(5));
  world.Submit("b", 1, 1, "lab", Of("bob"));  // the cheapest one to stop
  world.Submit("a2", 1, 4, "lab", Of("alice"));
  const Explanation why = world.Explain("a2");
  EXPECT_EQ(why.reason, WaitReason::kQuota);
  EXPECT_THAT(why.sentence,
              HasSubstr("user 'alice' holds 6 accelerators of the 8 accelerators that queue 'lab' "
                        "allows each user, and the job needs 4 accelerators more"));
  EXPECT_FALSE(why.expected_start.has_value());
  EXPECT_EQ(world.scheduler.WaitText(JobId("a2")),
            "user 'alice' holds 6 accelerators of the 8 accelerators that queue 'lab' allows each "
            "user");
  ASSERT_FALSE(why.fix.empty());
  for (const std::string& text : why.fix_texts) EXPECT_NE(text.substr(0, 6), "stop b");
  World trial(world.scheduler, world.now);
  for (const Event& event : why.fix) trial.Tell(event);
  trial.Round();
  EXPECT_TRUE(trial.Runs("a2"));
  EXPECT_TRUE(trial.Runs("b"));
}

TEST(UserLimits, OfRunningJobsAreExplained) {
  World world(1, 1, 4, Lab(0, 1));
  world.Submit("a1", 1, 1, "lab", Of(""));
  world.Submit("a2", 1, 1, "lab", Of(""));
  EXPECT_EQ(world.scheduler.WaitText(JobId("a2")),
            "user 'unknown' runs 1 job, and queue 'lab' allows each user 1 at a time");
}

TEST(UserLimits, JobsThatRanBeforeALimitWasLoweredKeepTheirNodes) {
  World world(1, 1, 4, Lab(32));
  world.Submit("a1", 2, 8, "lab", Of("alice"));
  world.Submit("a2", 1, 8, "lab", Of("alice"));
  auto next = Scheduler::Rebuild(world.scheduler, world.scheduler.topology(), Lab(16), Policy());
  ASSERT_TRUE(next.ok()) << next.status();
  World lowered(*next, world.now);
  lowered.Submit("a3", 1, 8, "lab", Of("alice"));
  EXPECT_TRUE(lowered.Runs("a1"));
  EXPECT_TRUE(lowered.Runs("a2"));
  EXPECT_FALSE(lowered.Runs("a3"));
  lowered.End("a1");
  EXPECT_TRUE(lowered.Runs("a3"));
}

TEST(UserLimits, ARaisedLimitLetsAWaitingJobStart) {
  World world(1, 1, 4, Lab(8));
  world.Submit("a1", 1, 8, "lab", Of("alice"));
  world.Submit("a2", 1, 8, "lab", Of("alice"));
  ASSERT_FALSE(world.Runs("a2"));
  auto next = Scheduler::Rebuild(world.scheduler, world.scheduler.topology(), Lab(16), Policy());
  ASSERT_TRUE(next.ok()) << next.status();
  World raised(*next, world.now);
  raised.Round();
  EXPECT_TRUE(raised.Runs("a2"));
}

// What the gang has lost is its user's again, and another job of the user takes a part of it.
TEST(UserLimits, ALostTaskIsReplacedWithinThem) {
  Policy policy;
  policy.repair_patience = hours(1);
  World world(1, 1, 3, Lab(16), policy);
  world.Submit("gang", 2, 8, "lab", Of("alice"));
  world.Submit("b", 1, 4, "lab", Of("bob"));
  const std::string lost = world.NodeName(world.NodesOf("gang")[0]);
  world.Tell(NodeChanged{lost, spec::NodeCondition::kDown});
  world.Pass(minutes(1));
  world.Submit("a", 1, 4, "lab", Of("alice"));
  ASSERT_TRUE(world.Runs("a"));
  world.Pass(minutes(1));
  world.Tell(NodeChanged{lost, spec::NodeCondition::kReady});
  EXPECT_EQ(world.NodesOf("gang").size(), 1u);
  world.End("a");
  EXPECT_EQ(world.NodesOf("gang").size(), 2u);
}

// The gang starts when the running job is ended, so a job that is longer than that waits, and one
// that is ended before may start.
TEST(LongestRun, BoundsTheLengthsThatBackfillAssumes) {
  std::vector<spec::QueueSpec> queues(2);
  queues[0].name = "short";
  queues[0].max_run_time = minutes(30);
  queues[1].name = "long";
  Policy policy;
  policy.shorter_first = Duration(0);  // or "later" would go before the gang
  World world(1, 1, 3, queues, policy);
  world.Submit("first", 1, 8, "short", OfFor("u", hours(9)));
  world.Submit("gang", 3, 8, "long", OfFor("u", hours(1)));
  const auto outlook = world.scheduler.OutlookOf(JobId("first"));
  EXPECT_EQ(outlook->length, minutes(30));
  EXPECT_EQ(*world.Explain("gang").expected_start, world.now + minutes(30));
  world.Submit("later", 1, 8, "long", OfFor("u", minutes(40)));
  EXPECT_FALSE(world.Runs("later"));
  world.Submit("ended", 1, 8, "short", OfFor("u", minutes(40)));
  EXPECT_TRUE(world.Runs("ended"));
}

TEST(LongestRun, CountsWhatAJobHasRunBefore) {
  std::vector<spec::QueueSpec> queues(1);
  queues[0].name = "short";
  queues[0].max_run_time = minutes(30);
  World world(1, 1, 1, queues);
  world.Submit("job", 1, 8, "short", OfFor("u", hours(9)));
  world.Pass(minutes(20));
  world.Tell(JobEvictionAsked{JobId("job")});
  ASSERT_TRUE(world.Runs("job")) << "it starts again";
  EXPECT_EQ(world.scheduler.OutlookOf(JobId("job"))->length, minutes(10));
}

}  // namespace
}  // namespace longhaul::scheduler
