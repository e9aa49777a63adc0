// Who may submit to a queue, how much each user may have there, and how long jobs run.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "runtime/scheduling/cluster_fixture.h"
#include "runtime/scheduling/what_if.h"

namespace longhaul::runtime::scheduling_testing::user_limits_test {
namespace {

using std::chrono::hours;
using std::chrono::minutes;
using std::chrono::seconds;
using testing::HasSubstr;

proto::Job By(const std::string& user, proto::Job job) {
  job.mutable_scheduling()->set_owner(user);
  return job;
}

proto::Job For(Duration expected, proto::Job job) {
  job.mutable_scheduling()->set_expected_ns(expected.count());
  return job;
}

proto::Job Array(const std::string& id, uint32_t count) {
  proto::Job job = Gang(id, 1, 1);
  job.mutable_array()->set_count(count);
  return job;
}

Status Refusal(const Cluster& cluster, const proto::Job& job) {
  return cluster.controller.CheckSubmission(job);
}

const std::string kLab = R"(
queues:
  - {name: lab, users: [alice, bob]}
  - {name: team, parent: lab, users: [bob]}
  - {name: open}
default_queue: lab
)";

TEST(Users, SubmitOnlyWhereTheyAreListed) {
  Cluster cluster(kLab);
  cluster.Join("node-1");
  EXPECT_TRUE(Refusal(cluster, By("alice", Gang("a", 1))).ok()) << "in the default queue";
  EXPECT_TRUE(Refusal(cluster, By("bob", InQueue(Gang("a", 1), "team"))).ok());
  EXPECT_TRUE(Refusal(cluster, By("carol", InQueue(Gang("a", 1), "open"))).ok());
  const Status carol = Refusal(cluster, By("carol", Gang("a", 1)));
  EXPECT_EQ(carol.code(), Code::kPermissionDenied);
  EXPECT_THAT(carol.message(), HasSubstr("user 'carol' may not submit to queue 'lab'"));
  const Status alice = Refusal(cluster, By("alice", InQueue(Gang("a", 1), "team")));
  EXPECT_THAT(alice.message(), HasSubstr("user 'alice' may not submit to queue 'team'"));
  const Status nobody = Refusal(cluster, Gang("a", 1));
  EXPECT_THAT(nobody.message(), HasSubstr("a submission that names no user may not submit"));
  cluster.Submit(By("carol", Gang("a", 1)));
  EXPECT_FALSE(cluster.controller.JobStatus(JobId("a"), cluster.now).has_value());
}

TEST(Users, OfAQueueAboveBindTheQueuesBelow) {
  Cluster cluster("queues: [{name: lab, users: [alice]}, {name: team, parent: lab}]");
  cluster.Join("node-1");
  EXPECT_THAT(Refusal(cluster, By("bob", InQueue(Gang("a", 1), "team"))).message(),
              HasSubstr("user 'bob' may not submit to queue 'lab'"));
}

// An operator may change a job of a user who is no longer listed.
TEST(Users, WhoAreNoLongerListedKeepTheirJobs) {
  Cluster cluster(kLab);
  cluster.Join("node-1");
  cluster.Submit(By("alice", Gang("a", 1)));
  cluster.Submit(By("alice", Gang("b", 2)));
  cluster.Started("queues: [{name: lab, users: [bob]}]\ndefault_queue: lab");
  cluster.Join("node-1");
  EXPECT_EQ(cluster.StateOf("a"), proto::RUNNING);
  proto::Change change;
  *change.mutable_job() = By("alice", Gang("b", 1));
  cluster.Ask({change});
  cluster.Stop("a");
  EXPECT_EQ(cluster.StateOf("b"), proto::RUNNING);
}

const std::string kFewJobs = R"(
queues:
  - {name: lab, per_user: {jobs: 4}}
  - {name: team, parent: lab}
default_queue: lab
)";

TEST(JobsOfAUser, BeyondTheLimitAreRefused) {
  Cluster cluster(kFewJobs);
  cluster.Join("node-1");
  for (const char* id : {"a1", "a2"}) cluster.Submit(By("alice", Gang(id, 1)));
  cluster.Submit(By("alice", InQueue(Gang("a3", 1), "team")));
  cluster.Submit(By("alice", InQueue(Gang("a4", 1), "team")));
  const Status fifth = Refusal(cluster, By("alice", Gang("a5", 1)));
  EXPECT_EQ(fifth.code(), Code::kResourceExhausted);
  EXPECT_THAT(fifth.message(),
              HasSubstr("user 'alice' has 4 live jobs in queue 'lab', which allows "
                        "each user 4; 1 more would exceed that"));
  EXPECT_TRUE(Refusal(cluster, By("bob", Gang("b1", 1))).ok());
  cluster.Stop("a4");
  EXPECT_TRUE(Refusal(cluster, By("alice", Gang("a5", 1))).ok());
}

TEST(JobsOfAUser, CountEachElementOfAnArray) {
  Cluster cluster(kFewJobs);
  cluster.Join("node-1");
  cluster.Submit(By("alice", Gang("a", 1)));
  EXPECT_THAT(Refusal(cluster, By("alice", Array("sweep", 4))).message(), HasSubstr("4 more"));
  cluster.Submit(By("alice", Array("sweep", 4)));
  EXPECT_TRUE(cluster.controller.Elements(JobId("sweep"), cluster.now).empty());
  cluster.Submit(By("alice", Array("sweep", 3)));
  EXPECT_EQ(cluster.controller.Elements(JobId("sweep"), cluster.now).size(), 3u);
  EXPECT_FALSE(Refusal(cluster, By("alice", Gang("b", 1))).ok());
}

TEST(JobsOfAUser, OfOneSubmissionCountTogether) {
  Cluster cluster(kFewJobs);
  cluster.Join("node-1");
  proto::JobsSubmitted submitted;
  for (const char* id : {"a1", "a2", "a3", "a4", "a5"}) {
    *submitted.add_jobs() = By("alice", Gang(id, 1));
  }
  EXPECT_EQ(cluster.controller.CheckSubmission(submitted).code(), Code::kResourceExhausted);
  proto::Event event;
  *event.mutable_jobs_submitted() = submitted;
  cluster.Feed(event);
  EXPECT_TRUE(cluster.controller.AllJobs(cluster.now).empty()) << "nothing half submitted";
  submitted.mutable_jobs()->RemoveLast();
  EXPECT_TRUE(cluster.controller.CheckSubmission(submitted).ok());
}

TEST(JobsOfAUser, RunAndHoldWithinTheLimits) {
  Cluster cluster(
      "queues: [{name: lab, per_user: {running: 1, accelerators: 4}}]\n"
      "default_queue: lab");
  for (const char* node : {"node-1", "node-2", "node-3"}) cluster.Join(node);
  cluster.Submit(By("alice", Gang("a1", 1)));
  cluster.Submit(By("alice", Gang("a2", 1)));
  cluster.Submit(By("bob", Gang("b1", 2)));
  EXPECT_EQ(cluster.StateOf("a1"), proto::RUNNING);
  EXPECT_EQ(cluster.StateOf("a2"), proto::QUEUED);
  EXPECT_EQ(cluster.StateOf("b1"), proto::RUNNING);
  EXPECT_THAT(cluster.Job("a2").reason(),
              HasSubstr("user 'alice' runs 1 job, and queue 'lab' allows each user 1 at a time"));
  EXPECT_THAT(Refusal(cluster, By("alice", Gang("a3", 3))).message(),
              HasSubstr("it needs 6 accelerators, but queue 'lab' allows each user 4"));
  cluster.Stop("a1");
  EXPECT_EQ(cluster.StateOf("a2"), proto::RUNNING);
}

TEST(JobsOfAUser, AreShownWithTheQueue) {
  Cluster cluster(
      "queues: [{name: lab, users: [alice, bob], per_user: {jobs: 9, running: 1}, max_run_time: "
      "2h},"
      " {name: open}, {name: few, per_user: {jobs: 3}}]\ndefault_queue: lab");
  for (const char* node : {"node-1", "node-2"}) cluster.Join(node);
  cluster.Submit(By("bob", Gang("b1", 1)));
  cluster.Submit(By("alice", Gang("a1", 1)));
  cluster.Submit(By("alice", Gang("a2", 1)));
  cluster.Submit(By("carol", InQueue(Gang("c1", 2), "few")));
  const auto queues = cluster.controller.Queues();
  ASSERT_EQ(queues.size(), 4u);
  const proto::QueueStatus& lab = queues[1];
  EXPECT_THAT(lab.users(), testing::ElementsAre("alice", "bob"));
  EXPECT_EQ(lab.max_run_ns(), Duration(hours(2)).count());
  EXPECT_EQ(lab.per_user().jobs(), 9);
  EXPECT_EQ(lab.per_user().running(), 1);
  EXPECT_EQ(lab.per_user().amounts().accelerators(), -1);
  ASSERT_EQ(lab.held_size(), 2);
  EXPECT_EQ(lab.held(0).user(), "alice");
  EXPECT_EQ(lab.held(0).jobs(), 2u);
  EXPECT_EQ(lab.held(0).running(), 1u);
  EXPECT_EQ(lab.held(0).amounts().accelerators(), 2);
  EXPECT_EQ(lab.held(1).user(), "bob");
  EXPECT_FALSE(queues[2].has_per_user());
  EXPECT_EQ(queues[2].held_size(), 0);
  ASSERT_EQ(queues[3].held_size(), 1) << "a limit of jobs alone";
  EXPECT_EQ(queues[3].held(0).jobs(), 1u);
  EXPECT_EQ(queues[3].held(0).running(), 0u);
}

const std::string kShort = R"(
queues:
  - {name: lab, max_run_time: 2h}
  - {name: short, parent: lab, max_run_time: 1h}
default_queue: short
)";

TEST(LongestRun, RefusesAJobThatExpectsMore) {
  Cluster cluster(kShort);
  cluster.Join("node-1");
  EXPECT_TRUE(Refusal(cluster, For(hours(1), Gang("a", 1))).ok());
  EXPECT_TRUE(Refusal(cluster, For(hours(2), InQueue(Gang("a", 1), "lab"))).ok());
  const Status longer = Refusal(cluster, For(minutes(61), Gang("a", 1)));
  EXPECT_EQ(longer.code(), Code::kFailedPrecondition);
  EXPECT_THAT(longer.message(), HasSubstr("queue 'short' ends jobs that have run for"));
}

TEST(LongestRun, EndsAJobWithALastSnapshot) {
  Cluster cluster(kShort);
  cluster.Join("node-1");
  cluster.Submit(Gang("a", 1));
  for (int i = 0; i < 5; ++i) cluster.Step("a");
  const Instant began = cluster.now - 5 * std::chrono::milliseconds(100);
  cluster.TickUntil(began + hours(1) - std::chrono::milliseconds(1));
  EXPECT_EQ(cluster.StateOf("a"), proto::RUNNING);
  cluster.TickUntil(began + hours(1));
  EXPECT_EQ(cluster.StateOf("a"), proto::LEAVING) << "a snapshot first";
  cluster.Step("a");
  EXPECT_EQ(cluster.Job("a").memory_step(), 6u);
  const uint64_t attempt = cluster.Job("a").attempt();
  cluster.Persist("a", "node-1", attempt, 6);
  EXPECT_EQ(cluster.StateOf("a"), proto::STOPPED);
  EXPECT_EQ(cluster.Job("a").committed_step(), 6u);
  EXPECT_THAT(cluster.Job("a").reason(), HasSubstr("the longest that queue 'short' allows"));
  EXPECT_EQ(cluster.Node("node-1").used_slots(), 0u);
}

TEST(LongestRun, EndsAJobWhoseSnapshotDoesNotCome) {
  Cluster cluster(kShort + "scheduling: {snapshot_patience: 3s}");
  cluster.Join("node-1");
  cluster.Submit(Gang("a", 1));
  cluster.Step("a");
  cluster.TickUntil(cluster.now + hours(1) + seconds(4));
  EXPECT_EQ(cluster.StateOf("a"), proto::STOPPED);
}

// Two attempts of half an hour with an hour in the queue between them.
TEST(LongestRun, CountsTheTimeWithNodesOverAllAttempts) {
  Cluster cluster(kShort);
  cluster.Join("node-1");
  cluster.Submit(Gang("a", 1));
  const Instant began = cluster.now;
  cluster.Step("a");
  cluster.TickUntil(began + minutes(30) - std::chrono::milliseconds(100));
  cluster.Submit(InQueue(WithPriority(Gang("high", 1), 10), "short"));
  cluster.Step("a");
  ASSERT_EQ(cluster.StateOf("a"), proto::QUEUED) << "after 30 minutes";
  ASSERT_EQ(cluster.StateOf("high"), proto::RUNNING);
  cluster.Step("high");
  cluster.TickUntil(cluster.now + minutes(40));
  EXPECT_EQ(cluster.StateOf("a"), proto::QUEUED) << "it does not count while it waits";
  cluster.Stop("high");
  ASSERT_EQ(cluster.StateOf("a"), proto::RUNNING);
  const Instant again = cluster.now;
  cluster.Step("a");
  cluster.TickUntil(again + minutes(30) - std::chrono::milliseconds(1));
  EXPECT_EQ(cluster.StateOf("a"), proto::RUNNING);
  cluster.TickUntil(again + minutes(30));
  EXPECT_EQ(cluster.StateOf("a"), proto::LEAVING);
}

TEST(LongestRun, EndsAJobThatLeavesItsNodesForAnother) {
  Cluster cluster(kShort);
  cluster.Join("node-1");
  cluster.Submit(Gang("a", 1));
  cluster.Step("a");
  cluster.closes = false;
  cluster.TickUntil(cluster.now + hours(1) - seconds(2));
  cluster.Submit(WithPriority(Gang("high", 1), 10));
  cluster.Step("a");
  ASSERT_EQ(cluster.StateOf("a"), proto::LEAVING);
  cluster.TickUntil(cluster.now + minutes(5));
  EXPECT_EQ(cluster.StateOf("a"), proto::STOPPED);
  EXPECT_EQ(cluster.StateOf("high"), proto::RUNNING);
}

// The controller was busy, so its deadline has not been looked at.
TEST(LongestRun, IsNoticedWhenAJobHasLeftItsNodesAfterIt) {
  Cluster cluster(kShort);
  cluster.Join("node-1");
  cluster.Submit(Gang("a", 1));
  cluster.Step("a");
  cluster.TickUntil(cluster.now + minutes(59));
  cluster.Submit(WithPriority(Gang("high", 1), 10));
  ASSERT_EQ(cluster.StateOf("a"), proto::LEAVING);
  cluster.now += minutes(10);
  cluster.Step("a");
  cluster.TickUntil(cluster.now + minutes(5));
  EXPECT_EQ(cluster.StateOf("a"), proto::STOPPED);
}

TEST(LongestRun, EndsAJobThatIsEvictedMeanwhile) {
  Cluster cluster(kShort);
  cluster.Join("node-1");
  cluster.Submit(Gang("a", 1));
  cluster.Step("a");
  cluster.TickUntil(cluster.now + hours(1));
  ASSERT_EQ(cluster.StateOf("a"), proto::LEAVING);
  cluster.Submit(WithPriority(Gang("high", 1), 10));
  cluster.Step("a");
  cluster.TickUntil(cluster.now + minutes(5));
  EXPECT_EQ(cluster.StateOf("a"), proto::STOPPED);
  EXPECT_EQ(cluster.StateOf("high"), proto::RUNNING);
}

TEST(LongestRun, OfAChangedFileAppliesToRunningAndWaitingJobs) {
  Cluster cluster("queues: [{name: lab}]\ndefault_queue: lab");
  cluster.Join("node-1");
  cluster.Submit(Gang("waits", 1));
  cluster.Step("waits");
  cluster.TickUntil(cluster.now + hours(2));
  cluster.Submit(WithPriority(Gang("runs", 1), 10));
  cluster.Step("waits");
  cluster.Submit(WithPriority(Gang("fresh", 1), -1));
  ASSERT_EQ(cluster.StateOf("waits"), proto::QUEUED);
  ASSERT_EQ(cluster.StateOf("runs"), proto::RUNNING);
  cluster.Step("runs");
  cluster.TickUntil(cluster.now + minutes(90));
  cluster.Started("queues: [{name: lab, max_run_time: 1h}]\ndefault_queue: lab");
  EXPECT_THAT(cluster.Job("waits").reason(), HasSubstr("the longest that queue 'lab' allows"));
  cluster.Join("node-1");
  cluster.TickUntil(cluster.now + minutes(10));
  EXPECT_EQ(cluster.StateOf("waits"), proto::STOPPED);
  EXPECT_EQ(cluster.StateOf("runs"), proto::STOPPED);
  EXPECT_EQ(cluster.StateOf("fresh"), proto::RUNNING);
}

TEST(LongestRun, AReplayEndsTheSameJobs) {
  Cluster cluster(kShort);
  cluster.Join("node-1");
  cluster.Join("node-2");
  cluster.Submit(By("alice", Gang("a", 1)));
  cluster.Submit(By("bob", Gang("b", 1)));
  cluster.Step("a");
  cluster.TickUntil(cluster.now + minutes(20));
  cluster.Started(kShort);
  cluster.Join("node-1");
  cluster.Join("node-2");
  cluster.TickUntil(cluster.now + hours(1));
  EXPECT_EQ(cluster.StateOf("a"), proto::STOPPED);
  Controller replayed{Cluster::Patient()};
  for (const auto& [now, event] : cluster.log) (void)replayed.Step(event, now);
  EXPECT_EQ(replayed.StateHash(), cluster.controller.StateHash());
}

TEST(WhatIfSubmit, AppliesTheRightsOfUsers) {
  Cluster cluster(kLab);
  cluster.Join("node-1");
  scheduling::WhatIfChange change;
  change.kind = scheduling::WhatIfChange::Kind::kSubmit;
  change.job = By("carol", Gang("a", 1));
  const auto answer =
      scheduling::AnswerWhatIf(*cluster.controller.CopyScheduler(), {change}, cluster.now, {});
  EXPECT_EQ(answer.status().code(), Code::kPermissionDenied);
}

}  // namespace
}  // namespace longhaul::runtime::scheduling_testing::user_limits_test
