// What a controller that was killed knows after its replay.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "runtime/scheduling/cluster_fixture.h"

namespace longhaul::runtime::scheduling_testing {
namespace {

TEST(Restart, AReplayWithQueuedAndRunningAndLeavingJobsGivesTheSameState) {
  Cluster cluster(kLabs);
  cluster.Join("node-1");
  cluster.Join("node-2", 20);
  cluster.Submit(Gang("low", 1));
  cluster.Submit(Gang("wide", 1, 18));
  cluster.Submit(Gang("never", 9));
  cluster.Step("low");
  cluster.Submit(WithPriority(Gang("high", 1), 10));
  cluster.Cordon("node-2", true, true);
  cluster.Lose("node-2");
  Controller replayed{Cluster::Patient()};
  for (const auto& [now, event] : cluster.log) (void)replayed.Step(event, now);
  EXPECT_EQ(replayed.StateHash(), cluster.controller.StateHash());
  EXPECT_TRUE(replayed.CheckPlaces().ok()) << replayed.CheckPlaces();
}

TEST(Restart, ALeavingGangReceivesItsOrdersAgain) {
  Cluster cluster;
  cluster.Join("node-1");
  cluster.Submit(Gang("low", 1));
  cluster.Step("low");
  cluster.closes = false;
  cluster.Submit(WithPriority(Gang("high", 1), 10));
  cluster.Step("low");
  cluster.Started("");
  EXPECT_EQ(cluster.StateOf("low"), proto::LEAVING);
  cluster.closes = true;
  cluster.Join("node-1", 2, 1);
  EXPECT_EQ(cluster.StateOf("low"), proto::QUEUED);
  EXPECT_EQ(cluster.StateOf("high"), proto::RUNNING);
}

}  // namespace
}  // namespace longhaul::runtime::scheduling_testing
