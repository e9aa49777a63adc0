// Nodes and links that fail again and again: what counts, probation, and the way back.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "runtime/scheduling/cluster_fixture.h"

namespace longhaul::runtime::scheduling_testing::health_test {
namespace {

using std::chrono::hours;
using std::chrono::milliseconds;
using std::chrono::minutes;
using std::chrono::seconds;
using testing::ElementsAre;
using testing::HasSubstr;

constexpr const char* kTwoLeaves = R"(
levels: [leaf]
models: {H100: {memory: 80GiB}}
kinds: {host: {model: H100, devices: 2, cpu: 8, memory: 64GiB}}
nodes:
  - {name: node-1, kind: host, at: {leaf: l1}}
  - {name: node-2, kind: host, at: {leaf: l1}}
  - {name: node-3, kind: host, at: {leaf: l1}}
  - {name: node-4, kind: host, at: {leaf: l2}}
  - {name: node-5, kind: host, at: {leaf: l2}}
)";

// Node-1 is lost and comes back, twice.
void Flap(Cluster& cluster) {
  for (const uint64_t life : {2, 3}) {
    cluster.Lose("node-1");
    cluster.Join("node-1", 2, life);
  }
}

TEST(Health, ANodeThatIsLostTwiceIsOnProbationAndAvoided) {
  Cluster cluster;
  for (const char* node : {"node-1", "node-2", "node-3", "node-4"}) cluster.Join(node);
  cluster.Submit(Gang("a", 2));
  cluster.Lose("node-1");
  EXPECT_EQ(cluster.Node("node-1").health(), 0.6);
  EXPECT_THAT(cluster.Node("node-1").last_fault(), HasSubstr("did not come back"));
  cluster.Join("node-1", 2, 2);
  EXPECT_EQ(cluster.Node("node-1").condition(), "ready");
  cluster.Lose("node-1");
  cluster.Join("node-1", 2, 3);
  EXPECT_EQ(cluster.Node("node-1").condition(), "suspect");
  EXPECT_EQ(cluster.Node("node-1").health(), 0.2);
  const auto gang = cluster.GangOf("a");
  cluster.Lose("node-2");
  EXPECT_EQ(cluster.StateOf("a"), proto::RUNNING);
  EXPECT_THAT(cluster.GangOf("a"), testing::Not(testing::Contains("node-1")));
  EXPECT_NE(cluster.GangOf("a"), gang);
}

TEST(Health, ProbationSurvivesACordonARestartAndANodeThatJoins) {
  Cluster cluster;
  cluster.Join("node-1");
  Flap(cluster);
  cluster.Cordon("node-1", true);
  EXPECT_EQ(cluster.Node("node-1").condition(), "cordoned");
  cluster.Cordon("node-1", false);
  EXPECT_EQ(cluster.Node("node-1").condition(), "suspect");
  cluster.Started("");
  cluster.Join("node-1", 2, 3);
  EXPECT_EQ(cluster.Node("node-1").condition(), "suspect");
  cluster.Join("node-2");
  cluster.Submit(Gang("a", 1));
  EXPECT_EQ(cluster.Node("node-1").condition(), "suspect");
  EXPECT_THAT(cluster.GangOf("a"), ElementsAre("node-2"));
}

// A loss is noticed a second after the connection ends, and Lose takes two.
void LoseAndRejoin(Cluster& cluster, const std::string& node, uint64_t life) {
  cluster.Lose(node);
  cluster.Join(node, 2, life);
}

TEST(Health, WhatNothingElseCanHoldGetsTheNodeBackEachTimeLater) {
  Cluster cluster;
  cluster.Join("node-1");
  Flap(cluster);
  cluster.Submit(Gang("a", 1));
  cluster.TickUntil(cluster.now + milliseconds(200));
  EXPECT_EQ(cluster.StateOf("a"), proto::RUNNING) << "1 s the first time";
  uint64_t life = 4;
  for (const int pause_s : {4, 16, 64}) {
    LoseAndRejoin(cluster, "node-1", life++);
    cluster.TickUntil(cluster.now + seconds(pause_s - 2));
    EXPECT_NE(cluster.StateOf("a"), proto::RUNNING) << pause_s << " s";
    cluster.TickUntil(cluster.now + seconds(2));
    EXPECT_EQ(cluster.StateOf("a"), proto::RUNNING) << pause_s << " s";
  }
}

TEST(Health, AReturnThatHasLastedTenPausesDoesNotMakeTheNextPauseLonger) {
  Cluster cluster;
  cluster.Join("node-1");
  Flap(cluster);
  cluster.Submit(Gang("a", 1));
  cluster.TickUntil(cluster.now + milliseconds(200));
  for (uint64_t life = 4; life < 10; ++life) {
    ASSERT_EQ(cluster.StateOf("a"), proto::RUNNING) << "life " << life;
    cluster.TickUntil(cluster.now + seconds(11));
    LoseAndRejoin(cluster, "node-1", life);
    cluster.TickUntil(cluster.now + milliseconds(200));
  }
}

TEST(Health, AJobThatOnlyWantsToGrowWaitsLongerForANodeOnProbation) {
  Cluster cluster;
  cluster.peer_port = 9;
  cluster.Join("node-1");
  cluster.Join("node-2");
  proto::Job job = Gang("a", 2);
  job.set_minimum_nodes(1);
  job.set_maximum_nodes(2);
  cluster.Submit(job);
  for (int i = 0; i < 3; ++i) cluster.Step("a");
  for (const std::string& node : cluster.GangOf("a")) cluster.Seal("a", node, 3);
  Flap(cluster);
  ASSERT_THAT(cluster.GangOf("a"), ElementsAre("node-2"));
  ASSERT_EQ(cluster.Node("node-1").condition(), "suspect");
  cluster.TickUntil(cluster.now + seconds(7));
  EXPECT_EQ(cluster.Node("node-1").condition(), "suspect") << "10 s, of which two are over";
  cluster.TickUntil(cluster.now + seconds(2));
  EXPECT_EQ(cluster.Node("node-1").condition(), "ready");
  for (int i = 0; i < 120 && cluster.StateOf("a") != proto::LEAVING; ++i) {
    cluster.TickUntil(cluster.now + seconds(1));
  }
  cluster.Step("a");
  EXPECT_THAT(cluster.GangOf("a"), ElementsAre("node-2", "node-1"));
}

TEST(Health, ReturnsWithTime) {
  Cluster cluster;
  cluster.Join("node-1");
  cluster.Join("node-2");
  proto::Job silent = Gang("a", 1);
  silent.mutable_workload()->set_built_in(false);  // it may run for days without a step
  cluster.Submit(silent);
  Flap(cluster);
  cluster.TickUntil(cluster.now + hours(59));
  EXPECT_EQ(cluster.Node("node-1").condition(), "suspect");
  cluster.TickUntil(cluster.now + hours(3));
  EXPECT_EQ(cluster.Node("node-1").condition(), "ready") << "0.2 + 60 x 0.01 is what is trusted";
}

TEST(Health, AnOperatorsWordEndsProbation) {
  Cluster cluster;
  cluster.Join("node-1");
  Flap(cluster);
  cluster.Submit(Gang("a", 1));
  LoseAndRejoin(cluster, "node-1", 4);
  ASSERT_NE(cluster.StateOf("a"), proto::RUNNING);
  proto::Change change;
  change.set_use_node("node-1");
  cluster.Ask({change});
  EXPECT_EQ(cluster.StateOf("a"), proto::RUNNING);
  EXPECT_EQ(cluster.Node("node-1").condition(), "ready");
}

TEST(Health, OneWorkersDeathsAreTheProgramsUnlessTheRestOfTheGangLives) {
  Cluster cluster;
  cluster.Join("node-1", 4);
  cluster.Join("node-2", 2);
  cluster.Submit(Gang("gang", 2));
  cluster.Submit(Gang("alone", 1));
  ASSERT_THAT(cluster.GangOf("alone"), ElementsAre("node-1"));
  for (int i = 0; i < 3; ++i) cluster.Die("alone", "node-1");
  EXPECT_EQ(cluster.Node("node-1").health(), 1.0);
  cluster.Die("gang", "node-2");
  EXPECT_EQ(cluster.Node("node-2").health(), 1.0);
  cluster.Die("gang", "node-2");
  EXPECT_EQ(cluster.Node("node-2").health(), 0.6);
  cluster.Die("gang", "node-1");
  EXPECT_EQ(cluster.Node("node-1").health(), 0.6) << "of two jobs";
}

TEST(Health, ThreeBrokenConnectionsInAnHourAreAFault) {
  Cluster cluster;
  cluster.Join("node-1");
  cluster.Submit(Gang("a", 1));
  for (int i = 0; i < 3; ++i) {
    EXPECT_EQ(cluster.Node("node-1").health(), 1.0);
    cluster.Cut("node-1");
    cluster.TickUntil(cluster.now + minutes(2));
  }
  EXPECT_EQ(cluster.Node("node-1").health(), 0.6);
  EXPECT_EQ(cluster.Job("a").faults_size(), 0);
}

TEST(Health, BreaksOfOneLeafAreItsLinksAndOfAllNobodys) {
  Cluster cluster("cluster: c.yaml\n", kTwoLeaves);
  const char* kNodes[] = {"node-1", "node-2", "node-3", "node-4", "node-5"};
  for (const char* node : kNodes) cluster.Join(node);
  cluster.Submit(Gang("a", 1));
  for (int round = 0; round < 3; ++round) {
    for (const char* node : kNodes) cluster.Cut(node);
    cluster.TickUntil(cluster.now + minutes(2));
  }
  EXPECT_TRUE(cluster.controller.Links().empty());
  for (int round = 0; round < 2; ++round) {
    for (const char* node : {"node-1", "node-2", "node-3"}) cluster.Cut(node);
    cluster.TickUntil(cluster.now + minutes(2));
  }
  for (const char* node : kNodes) EXPECT_EQ(cluster.Node(node).health(), 1.0) << node;
  const auto links = cluster.controller.Links();
  ASSERT_EQ(links.size(), 1u);
  EXPECT_EQ(links[0].name, "l1");
  EXPECT_EQ(links[0].health, 200);
  EXPECT_FALSE(links[0].trusted);
  cluster.Submit(Gang("wide", 4));
  EXPECT_EQ(cluster.StateOf("wide"), proto::QUEUED) << "no gang crosses them";
}

TEST(Health, AReplayKnowsIt) {
  Cluster cluster;
  cluster.Join("node-1");
  cluster.Submit(Gang("a", 1));
  Flap(cluster);
  cluster.TickUntil(cluster.now + seconds(11));
  cluster.Cut("node-1");
  Controller replayed{Cluster::Patient()};
  for (const auto& [now, event] : cluster.log) (void)replayed.Step(event, now);
  EXPECT_EQ(replayed.StateHash(), cluster.controller.StateHash());
}

}  // namespace
}  // namespace longhaul::runtime::scheduling_testing::health_test
