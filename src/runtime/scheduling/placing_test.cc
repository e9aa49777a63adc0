// Who gets which nodes.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "runtime/scheduling/cluster_fixture.h"

namespace longhaul::runtime::scheduling_testing {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

TEST(Placing, TwoJobsShareANodeAndAThirdWaitsForASlot) {
  Cluster cluster;
  cluster.Join("node-1", 4);
  cluster.Submit(Gang("a", 1));
  cluster.Submit(Gang("b", 1));
  cluster.Submit(Gang("c", 1));
  EXPECT_EQ(cluster.StateOf("a"), proto::RUNNING);
  EXPECT_EQ(cluster.StateOf("b"), proto::RUNNING);
  EXPECT_EQ(cluster.StateOf("c"), proto::QUEUED);
  EXPECT_EQ(cluster.Node("node-1").used_slots(), 4u);
  EXPECT_THAT(cluster.Node("node-1").jobs(), ElementsAre("a", "b"));
  cluster.Stop("a");
  EXPECT_EQ(cluster.StateOf("c"), proto::RUNNING);
}

TEST(Placing, RanksFollowTheNaturalOrderOfNames) {
  Cluster cluster;
  for (const char* node : {"node-10", "node-2", "node-1"}) cluster.Join(node);
  cluster.Submit(Gang("a", 3));
  EXPECT_THAT(cluster.GangOf("a"), ElementsAre("node-1", "node-2", "node-10"));
}

TEST(Placing, KeepsAGangThatNoPresentNodesCouldHoldAndSaysTheLargest) {
  Cluster cluster;
  cluster.Join("node-1");
  cluster.Submit(Gang("a", 3));
  EXPECT_EQ(cluster.StateOf("a"), proto::QUEUED);
  EXPECT_THAT(cluster.Job("a").reason(), HasSubstr("the largest size that fits this cluster is 1"));
  cluster.Join("node-2");
  cluster.Join("node-3");
  EXPECT_EQ(cluster.StateOf("a"), proto::RUNNING);
}

TEST(Placing, ManySlotsANodeAreCountedExactly) {
  Cluster cluster;
  cluster.Join("node-1", 17);
  cluster.Join("node-2", 4);
  cluster.Submit(Gang("all", 1, 17));
  EXPECT_THAT(cluster.GangOf("all"), ElementsAre("node-1"));
  cluster.Submit(Gang("small", 1, 4));
  EXPECT_THAT(cluster.GangOf("small"), ElementsAre("node-2"));
  cluster.Submit(Gang("more", 1, 1));
  EXPECT_EQ(cluster.StateOf("more"), proto::QUEUED);
  EXPECT_EQ(cluster.Node("node-1").used_slots(), 17u);
}

TEST(Placing, ANodeOfManySlotsThatJoinsLaterDisturbsNobody) {
  Cluster cluster;
  cluster.Join("node-1", 2);
  cluster.Submit(Gang("a", 1));
  cluster.Join("node-2", 64);
  EXPECT_EQ(cluster.StateOf("a"), proto::RUNNING);
  EXPECT_EQ(cluster.Job("a").attempt(), 1u);
  cluster.Submit(Gang("b", 1, 60));
  EXPECT_THAT(cluster.GangOf("b"), ElementsAre("node-2"));
}

}  // namespace
}  // namespace longhaul::runtime::scheduling_testing
