// Nodes that are cordoned, drained and lost.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "runtime/scheduling/cluster_fixture.h"

namespace longhaul::runtime::scheduling_testing {
namespace {

using std::chrono::minutes;
using std::chrono::seconds;
using testing::ElementsAre;
using testing::HasSubstr;

TEST(Drain, ACordonedNodeKeepsItsWorkersAndTakesNoNewOnes) {
  Cluster cluster;
  cluster.Join("node-1", 4);
  cluster.Submit(Gang("a", 1));
  cluster.Cordon("node-1", true);
  cluster.Submit(Gang("b", 1));
  EXPECT_EQ(cluster.StateOf("a"), proto::RUNNING);
  EXPECT_EQ(cluster.StateOf("b"), proto::QUEUED);
  EXPECT_EQ(cluster.Node("node-1").condition(), "cordoned");
  cluster.Cordon("node-1", false);
  EXPECT_EQ(cluster.StateOf("b"), proto::RUNNING);
}

TEST(Drain, MovesAGangsPartWithItsNewestSnapshot) {
  Cluster cluster;
  for (const char* node : {"node-1", "node-2", "node-3"}) cluster.Join(node);
  cluster.Submit(Gang("a", 2));
  for (int i = 0; i < 3; ++i) cluster.Step("a");
  cluster.Cordon("node-1", true, true);
  EXPECT_EQ(cluster.StateOf("a"), proto::LEAVING);
  cluster.Step("a");
  EXPECT_EQ(cluster.StateOf("a"), proto::LEAVING) << "node-3 needs the snapshot from disk";
  cluster.Persist("a", "node-1", 1, 4);
  EXPECT_EQ(cluster.StateOf("a"), proto::RUNNING);
  EXPECT_THAT(cluster.GangOf("a"), ElementsAre("node-3", "node-2")) << "node-2 keeps its rank";
  EXPECT_EQ(cluster.LastStart("a", "node-3").restore().tier(), proto::Restore::TIER_DISK);
  EXPECT_EQ(cluster.LastStart("a", "node-2").restore().tier(), proto::Restore::TIER_MEMORY);
  EXPECT_EQ(cluster.LastStart("a", "node-2").restore().step(), 4u);
  EXPECT_EQ(cluster.Node("node-1").used_slots(), 0u);
  EXPECT_EQ(cluster.Job("a").moves(), 1u);
  EXPECT_EQ(cluster.Job("a").faults_size(), 0);
}

TEST(Drain, StopsAndQueuesWhatFindsNoOtherPlaceInTime) {
  Cluster cluster("scheduling: {repair_patience: 5min}");
  cluster.Join("node-1");
  cluster.Submit(Gang("a", 1));
  cluster.Step("a");
  cluster.Cordon("node-1", true, true);
  EXPECT_EQ(cluster.StateOf("a"), proto::RUNNING) << "it runs on as long as it may";
  cluster.TickUntil(cluster.now + minutes(4));
  EXPECT_EQ(cluster.StateOf("a"), proto::RUNNING);
  cluster.TickUntil(cluster.now + minutes(1) + seconds(1));
  EXPECT_EQ(cluster.StateOf("a"), proto::LEAVING);
  cluster.Step("a");
  EXPECT_EQ(cluster.StateOf("a"), proto::QUEUED);
  EXPECT_EQ(cluster.Node("node-1").used_slots(), 0u);
  cluster.Cordon("node-1", false);
  EXPECT_EQ(cluster.StateOf("a"), proto::RUNNING);
  EXPECT_EQ(cluster.LastStart("a", "node-1").restore().step(), 2u);
}

TEST(Drain, LeavesJobsThatNobodyMayStop) {
  Cluster cluster;
  cluster.Join("node-1");
  cluster.Join("node-2");
  proto::Job job = Gang("a", 1);
  job.mutable_scheduling()->set_preemption("never");
  cluster.Submit(job);
  cluster.Step("a");
  cluster.Cordon("node-1", true, true);
  cluster.TickUntil(cluster.now + minutes(60));
  EXPECT_THAT(cluster.GangOf("a"), ElementsAre("node-1"));
  EXPECT_EQ(cluster.Job("a").attempt(), 1u);
}

TEST(Drain, TakenBackInTimeChangesNothing) {
  Cluster cluster;
  cluster.Join("node-1");
  cluster.Submit(Gang("a", 1));
  cluster.Step("a");
  cluster.Cordon("node-1", true, true);
  cluster.Cordon("node-1", false);
  cluster.TickUntil(cluster.now + minutes(20));
  EXPECT_EQ(cluster.StateOf("a"), proto::RUNNING);
  EXPECT_EQ(cluster.Job("a").attempt(), 1u);
}

TEST(Repair, KeepsTheSurvivorsAndTakesASpare) {
  Cluster cluster;
  for (const char* node : {"node-1", "node-2", "node-3"}) cluster.Join(node);
  cluster.Submit(Gang("a", 2));
  cluster.Step("a");
  cluster.Lose("node-1");
  EXPECT_EQ(cluster.StateOf("a"), proto::RUNNING);
  EXPECT_THAT(cluster.GangOf("a"), ElementsAre("node-3", "node-2"));
  EXPECT_THAT(cluster.Job("a").faults(0).action(), HasSubstr("replace the node"));
}

TEST(Repair, GivesTheSurvivorsBackWhenNoNodeComes) {
  Cluster cluster("scheduling: {repair_patience: 5min}");
  cluster.Join("node-1");
  cluster.Join("node-2");
  cluster.Submit(Gang("a", 2));
  cluster.Step("a");
  cluster.Submit(Gang("b", 1));
  cluster.Lose("node-1");
  EXPECT_EQ(cluster.StateOf("a"), proto::RECOVERING);
  EXPECT_EQ(cluster.StateOf("b"), proto::QUEUED);
  cluster.TickUntil(cluster.now + minutes(6));
  EXPECT_EQ(cluster.StateOf("a"), proto::QUEUED);
  EXPECT_EQ(cluster.StateOf("b"), proto::RUNNING);
  cluster.Join("node-3");
  EXPECT_EQ(cluster.StateOf("a"), proto::QUEUED);
  cluster.Join("node-4");
  EXPECT_EQ(cluster.StateOf("a"), proto::RUNNING);
  EXPECT_GT(cluster.Job("a").faults(0).decided_at_ns(), 0);
}

}  // namespace
}  // namespace longhaul::runtime::scheduling_testing
