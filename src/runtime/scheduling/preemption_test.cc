// Who leaves nodes for others, and how.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "runtime/scheduling/cluster_fixture.h"

namespace longhaul::runtime::scheduling_testing {
namespace {

using std::chrono::seconds;
using testing::ElementsAre;
using testing::HasSubstr;

TEST(Preemption, TakesASnapshotStopsAndGoesOnLaterFromThere) {
  Cluster cluster;
  cluster.Join("node-1");
  cluster.Join("node-2");
  cluster.Submit(Gang("low", 2));
  for (int i = 0; i < 5; ++i) cluster.Step("low");
  cluster.Submit(WithPriority(Gang("high", 1), 10));
  EXPECT_EQ(cluster.StateOf("low"), proto::LEAVING) << "a snapshot first";
  EXPECT_EQ(cluster.StateOf("high"), proto::QUEUED);
  cluster.Step("low");
  EXPECT_EQ(cluster.StateOf("low"), proto::QUEUED);
  EXPECT_EQ(cluster.StateOf("high"), proto::RUNNING);
  EXPECT_EQ(cluster.Job("low").memory_step(), 6u);
  EXPECT_EQ(cluster.Job("low").preemptions(), 1u);
  cluster.Step("high");
  cluster.Stop("high");
  EXPECT_EQ(cluster.StateOf("low"), proto::RUNNING);
  const auto start = cluster.LastStart("low", "node-1");
  EXPECT_EQ(start.restore().step(), 6u);
  EXPECT_EQ(start.restore().tier(), proto::Restore::TIER_MEMORY);
  EXPECT_EQ(cluster.Job("low").faults_size(), 0);
  EXPECT_EQ(cluster.Job("low").restarts(), 0u) << "being stopped for others costs no restart";
  cluster.Step("low");
  EXPECT_EQ(cluster.Job("low").step(), 7u);
}

TEST(Preemption, TheWinnerWaitsUntilTheWorkersHaveEnded) {
  Cluster cluster;
  cluster.Join("node-1");
  cluster.Submit(Gang("low", 1));
  cluster.Step("low");
  cluster.closes = false;
  cluster.Submit(WithPriority(Gang("high", 1), 10));
  cluster.Step("low");
  EXPECT_EQ(cluster.StateOf("low"), proto::LEAVING);
  EXPECT_EQ(cluster.StateOf("high"), proto::QUEUED);
  EXPECT_THAT(cluster.Job("high").reason(), HasSubstr("starts once node-1 is free"));
  EXPECT_EQ(cluster.Node("node-1").used_slots(), 2u);
  cluster.TickUntil(cluster.now + seconds(6));
  EXPECT_EQ(cluster.StateOf("high"), proto::RUNNING) << "they did not answer in time";
}

TEST(Preemption, LeavesWithoutASnapshotThatDoesNotCome) {
  Cluster cluster("scheduling: {snapshot_patience: 3s}");
  cluster.Join("node-1");
  cluster.Submit(Gang("low", 1));
  cluster.Step("low");
  cluster.Submit(WithPriority(Gang("high", 1), 10));
  EXPECT_EQ(cluster.StateOf("low"), proto::LEAVING);
  cluster.TickUntil(cluster.now + seconds(4));
  EXPECT_EQ(cluster.StateOf("low"), proto::QUEUED);
  EXPECT_EQ(cluster.StateOf("high"), proto::RUNNING);
}

TEST(Preemption, AFaultWhileLeavingDoesNotBringTheJobBack) {
  Cluster cluster;
  cluster.Join("node-1");
  cluster.Submit(Gang("low", 1));
  cluster.Step("low");
  cluster.Submit(WithPriority(Gang("high", 1), 10));
  ASSERT_EQ(cluster.StateOf("low"), proto::LEAVING);
  cluster.Lose("node-1");
  EXPECT_EQ(cluster.StateOf("low"), proto::QUEUED);
  EXPECT_EQ(cluster.StateOf("high"), proto::QUEUED);
  cluster.Join("node-1", 2, 2);
  EXPECT_EQ(cluster.StateOf("high"), proto::RUNNING);
  cluster.Stop("high");
  EXPECT_EQ(cluster.StateOf("low"), proto::RUNNING);
  EXPECT_EQ(cluster.LastStart("low", "node-1").restore().step(), 0u) << "its memory is gone";
}

TEST(Preemption, AJobThatIsStoppedWhileItLeavesEnds) {
  Cluster cluster;
  cluster.Join("node-1");
  cluster.Submit(Gang("low", 1));
  cluster.Step("low");
  cluster.Submit(WithPriority(Gang("high", 1), 10));
  cluster.Stop("low");
  EXPECT_EQ(cluster.StateOf("low"), proto::STOPPED);
  EXPECT_EQ(cluster.StateOf("high"), proto::RUNNING);
}

// Whether a node was ordered to give a job's memory free.
bool Freed(const Cluster& cluster, const std::string& node, const std::string& job) {
  for (const auto& [to, command] : cluster.sent) {
    if (to == node && command.has_forget_job() && command.forget_job().job_id() == job) {
      EXPECT_GT(command.forget_job().attempt(), 0u) << "it comes back";
      return true;
    }
  }
  return false;
}

TEST(Preemption, ASuspendedJobsMemoryIsFreedOnceItIsOnDiskAndOthersWorkThere) {
  Cluster cluster;
  cluster.Join("node-1");
  cluster.Join("node-2");
  cluster.Submit(Gang("low", 2));
  cluster.Step("low");
  cluster.Submit(WithPriority(Gang("high", 1), 10));
  cluster.Step("low");
  ASSERT_EQ(cluster.StateOf("low"), proto::QUEUED);
  ASSERT_THAT(cluster.GangOf("high"), ElementsAre("node-1"));
  EXPECT_FALSE(Freed(cluster, "node-1", "low")) << "there is no other copy";
  cluster.Persist("low", "node-1", 1, 2);
  EXPECT_TRUE(Freed(cluster, "node-1", "low"));
  EXPECT_FALSE(Freed(cluster, "node-2", "low")) << "nobody needs the room there";
  cluster.Submit(WithPriority(Gang("other", 1), 10));
  EXPECT_TRUE(Freed(cluster, "node-2", "low"));
  cluster.Stop("high");
  cluster.Stop("other");
  EXPECT_EQ(cluster.StateOf("low"), proto::RUNNING);
  EXPECT_EQ(cluster.LastStart("low", "node-1").restore().tier(), proto::Restore::TIER_DISK);
  EXPECT_EQ(cluster.LastStart("low", "node-1").restore().step(), 2u);
}

TEST(Preemption, ANodeThatIsAwayReceivesTheOrderToFreeMemoryWhenItIsBack) {
  Cluster cluster;
  cluster.Join("node-1");
  cluster.Join("node-2");
  cluster.Submit(Gang("low", 2));
  cluster.Step("low");
  cluster.Submit(WithPriority(Gang("high", 2), 10));
  cluster.Step("low");
  cluster.Disconnect("node-2");
  cluster.Persist("low", "node-1", 1, 2);
  EXPECT_TRUE(Freed(cluster, "node-1", "low"));
  EXPECT_FALSE(Freed(cluster, "node-2", "low"));
  cluster.Join("node-2");
  EXPECT_TRUE(Freed(cluster, "node-2", "low"));
}

TEST(Preemption, AQueuedJobsCommitIsGrantedAgainToANodeThatWasAway) {
  Cluster cluster;
  cluster.Join("node-1");
  cluster.Submit(Gang("low", 1));
  cluster.Step("low");
  cluster.Submit(WithPriority(Gang("high", 1), 10));
  cluster.Step("low");
  ASSERT_EQ(cluster.StateOf("low"), proto::QUEUED);
  cluster.Disconnect("node-1");
  cluster.Persist("low", "node-1", 1, 2);
  EXPECT_EQ(cluster.Job("low").committed_step(), 0u);
  cluster.Join("node-1");
  EXPECT_EQ(cluster.Job("low").committed_step(), 2u);
  EXPECT_TRUE(Freed(cluster, "node-1", "low"));
}

TEST(Preemption, AStoppedJobsSnapshotStillReachesTheDisk) {
  Cluster cluster;
  cluster.Join("node-1");
  cluster.Submit(Gang("low", 1));
  cluster.Step("low");
  cluster.Submit(WithPriority(Gang("high", 1), 10));
  cluster.Step("low");
  ASSERT_EQ(cluster.StateOf("low"), proto::QUEUED);
  cluster.Persist("low", "node-1", 1, 2);
  EXPECT_EQ(cluster.Job("low").committed_step(), 2u);
  cluster.Join("node-2");
  EXPECT_THAT(cluster.GangOf("low"), ElementsAre("node-2"));
  const auto start = cluster.LastStart("low", "node-2");
  EXPECT_EQ(start.restore().step(), 2u);
  EXPECT_EQ(start.restore().tier(), proto::Restore::TIER_DISK);
}

}  // namespace
}  // namespace longhaul::runtime::scheduling_testing
