// How long a controller that has started again waits for agents.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "runtime/controller/cluster_fixture.h"

namespace longhaul::runtime {
namespace {

using namespace controller_testing;
using std::chrono::seconds;

// The workers run on nodes 1 and 2, and node 3 is idle. The controller is started again.
Cluster RestartedWithASpare(int spares = 1) {
  Cluster cluster;
  cluster.Join("node-1");
  cluster.Join("node-2");
  for (int i = 0; i < spares; ++i) cluster.Join("node-" + std::to_string(3 + i));
  cluster.Submit(TwoByTwo());
  cluster.Start();
  cluster.Steps(1, 10);
  cluster.SealAll(10);
  proto::Event started;
  started.mutable_controller_started();
  cluster.Feed(started);
  return cluster;
}

void StepOnNode1(Cluster& cluster, uint64_t step) {
  proto::StepReported report;
  report.set_job_id("gpt-1");
  report.set_attempt(1);
  report.set_first_step(step);
  report.set_last_step(step);
  cluster.Report("node-1", &proto::Event::mutable_step_reported, report);
}

TEST(AbsentNodes, AreReplacedWhenTheGangStandsStillWithoutThem) {
  Cluster cluster = RestartedWithASpare();
  cluster.Join("node-1");
  cluster.Join("node-3");
  cluster.TickUntil(cluster.now + seconds(1));
  EXPECT_EQ(cluster.Job().faults_size(), 0) << "others return";
  cluster.TickUntil(cluster.now + seconds(2));
  ASSERT_EQ(cluster.Job().faults_size(), 1);
  EXPECT_EQ(cluster.Job().faults(0).class_name(), "node");
  EXPECT_THAT(cluster.Job().gang(), testing::UnorderedElementsAre("node-1", "node-3"));
}

TEST(AbsentNodes, AreReplacedWhenTheGangHasFailed) {
  Cluster cluster = RestartedWithASpare();
  cluster.Join("node-1");
  cluster.Join("node-3");
  StepOnNode1(cluster, 11);
  cluster.Exit("node-1", 0, 1, 0);
  cluster.TickUntil(cluster.now + seconds(3));
  EXPECT_EQ(cluster.Job().attempt(), 2u);
  EXPECT_THAT(cluster.Job().gang(), testing::UnorderedElementsAre("node-1", "node-3"));
}

// Node 2 is cut off from the controller alone.
TEST(AbsentNodes, AreAwaitedWhileTheGangMakesSteps) {
  Cluster cluster = RestartedWithASpare();
  cluster.Join("node-1");
  cluster.Join("node-3");
  for (uint64_t step = 11; step < 25; ++step) {
    cluster.TickUntil(cluster.now + seconds(1));
    StepOnNode1(cluster, step);
    ASSERT_EQ(cluster.Job().faults_size(), 0) << step;
  }
  cluster.Join("node-2");
  cluster.TickUntil(cluster.now + seconds(1));
  EXPECT_EQ(cluster.Job().attempt(), 1u);
}

TEST(AbsentNodes, AreAwaitedWhileOthersReturnOrMostAreAway) {
  Cluster few = RestartedWithASpare();
  few.Join("node-3");
  few.TickUntil(few.now + seconds(14));
  EXPECT_EQ(few.Job().faults_size(), 0) << "one of three is back";
  few.TickUntil(few.now + seconds(2));
  EXPECT_GT(few.Job().faults_size(), 0);
  Cluster many = RestartedWithASpare(6);
  many.Join("node-1");
  for (int node = 3; node <= 8; ++node) {
    many.TickUntil(many.now + seconds(1));
    many.Join("node-" + std::to_string(node));
  }
  EXPECT_EQ(many.Job().faults_size(), 0) << "one after the other returns";
}

TEST(AbsentNodes, AreAwaitedWithoutAnIdleNode) {
  Cluster cluster = RestartedWithASpare(0);
  cluster.Join("node-1");
  cluster.Exit("node-1", 0, -1, 9);
  cluster.TickUntil(cluster.now + seconds(14));
  EXPECT_EQ(cluster.Job().attempt(), 1u);
  cluster.Join("node-2");
  cluster.TickUntil(cluster.now + seconds(1));
  ASSERT_EQ(cluster.Job().attempt(), 2u);
  cluster.Start();
  EXPECT_EQ(cluster.RestoreOf("node-2").tier(), proto::Restore::TIER_MEMORY);
}

}  // namespace
}  // namespace longhaul::runtime
