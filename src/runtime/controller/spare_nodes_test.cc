// Which idle nodes are made ready for which jobs, through the controller's events and commands.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <string>
#include <vector>

#include "runtime/controller/cluster_fixture.h"

namespace longhaul::runtime {
namespace {

using namespace controller_testing;
using std::chrono::milliseconds;
using testing::ElementsAre;

// The lists that the node was sent, each as its jobs.
std::vector<std::vector<std::string>> ListsTo(const Cluster& cluster, const std::string& node) {
  std::vector<std::vector<std::string>> lists;
  for (const auto& [to, command] : cluster.sent) {
    if (to != node || !command.has_prepare_jobs()) continue;
    std::vector<std::string>& jobs = lists.emplace_back();
    for (const auto& start : command.prepare_jobs().starts()) jobs.push_back(start.job_id());
  }
  return lists;
}

const std::vector<std::string> kGpt = {"gpt-1"};
const std::vector<std::string> kNone = {};

Cluster RunningWithNodes(const std::vector<std::string>& others) {
  Cluster cluster = Running();
  for (const std::string& node : others) cluster.Join(node);
  return cluster;
}

TEST(SpareNodes, TwoIdleNodesAreMadeReadyOnce) {
  Cluster cluster = RunningWithNodes({"node-3", "node-4", "node-5"});
  cluster.Steps(1, 20);
  EXPECT_THAT(ListsTo(cluster, "node-3"), ElementsAre(kGpt));
  EXPECT_THAT(ListsTo(cluster, "node-4"), ElementsAre(kGpt));
  EXPECT_THAT(ListsTo(cluster, "node-5"), ElementsAre());
  EXPECT_THAT(ListsTo(cluster, "node-1"), ElementsAre());
  const auto command = cluster.Last("node-3", proto::Command::kPrepareJobs).prepare_jobs();
  EXPECT_EQ(command.starts(0).local_ranks(), 2u);
  EXPECT_EQ(command.starts(0).world(), 4u);
}

TEST(SpareNodes, NodesThatCannotTakeTheJobAreLeftAlone) {
  Cluster cluster = RunningWithNodes({"node-3"});
  proto::Event event;
  event.mutable_node_cordoned()->set_target("node-3");
  event.mutable_node_cordoned()->set_cordoned(true);
  cluster.Feed(event);
  EXPECT_THAT(ListsTo(cluster, "node-3"), ElementsAre(kGpt, kNone));
  event.mutable_node_cordoned()->set_cordoned(false);
  cluster.Feed(event);
  EXPECT_THAT(ListsTo(cluster, "node-3"), ElementsAre(kGpt, kNone, kGpt));
}

TEST(SpareNodes, ANodeOnAHostOfTheGangIsLeftAlone) {
  Cluster cluster = Running();
  cluster.host = "host-1";
  cluster.Join("node-1");  // again, with the fact
  cluster.Join("node-3");
  EXPECT_THAT(ListsTo(cluster, "node-3"), ElementsAre());
  cluster.host = "host-2";
  cluster.Join("node-4");
  EXPECT_THAT(ListsTo(cluster, "node-4"), ElementsAre(kGpt));
}

TEST(SpareNodes, AnAgentThatJoinsAgainIsToldAgain) {
  Cluster cluster = RunningWithNodes({"node-3"});
  cluster.Disconnect("node-3");
  cluster.Join("node-3");
  EXPECT_THAT(ListsTo(cluster, "node-3"), ElementsAre(kGpt, kGpt)) << "its fork server stays";
}

TEST(SpareNodes, AnAgentIsToldOfWhatEndedWhileItWasAway) {
  Cluster cluster = RunningWithNodes({"node-3"});
  cluster.Disconnect("node-3");
  proto::Event stop;
  stop.mutable_job_stop_requested()->set_job_id("gpt-1");
  cluster.Feed(stop);
  cluster.Join("node-3");
  EXPECT_THAT(ListsTo(cluster, "node-3"), ElementsAre(kGpt, kNone));
}

TEST(SpareNodes, ANodeThatTakesTheLostOnesPlaceKeepsItsForkServer) {
  Cluster cluster = RunningWithNodes({"node-3"});
  cluster.Disconnect("node-2");
  cluster.TickUntil(cluster.now + std::chrono::seconds(2));
  EXPECT_EQ(cluster.Job().attempt(), 2u);
  EXPECT_THAT(cluster.Job().gang(), ElementsAre("node-1", "node-3"));
  EXPECT_THAT(ListsTo(cluster, "node-3"), ElementsAre(kGpt));
  cluster.Join("node-2", 2);
  EXPECT_THAT(ListsTo(cluster, "node-2"), ElementsAre(kGpt));
}

TEST(FailingNode, IsLeftAfterTwoFailuresWithoutAStepInBetween) {
  Cluster cluster = RunningWithNodes({"node-3"});
  cluster.Steps(1, 3);
  cluster.Exit("node-2", 2, 1, 0);
  cluster.TickUntil(cluster.now + std::chrono::seconds(1));
  EXPECT_THAT(cluster.Job().gang(), ElementsAre("node-1", "node-2")) << "once proves nothing";
  EXPECT_EQ(cluster.Job().attempt(), 2u);
  cluster.Exit("node-2", 3, 1, 0);
  cluster.TickUntil(cluster.now + std::chrono::seconds(1));
  EXPECT_THAT(cluster.Job().gang(), ElementsAre("node-1", "node-3"));
  EXPECT_EQ(cluster.Job().attempt(), 3u);
  EXPECT_EQ(cluster.controller.AllNodes()[1].condition(), "suspect");
}

TEST(FailingNode, StaysWhereNoOtherNodeIsIdle) {
  Cluster cluster = Running();
  cluster.Steps(1, 3);
  for (const uint32_t rank : {2u, 3u, 2u}) {
    cluster.Exit("node-2", rank, 1, 0);
    cluster.TickUntil(cluster.now + std::chrono::seconds(1));
  }
  EXPECT_THAT(cluster.Job().gang(), ElementsAre("node-1", "node-2"));
  EXPECT_EQ(cluster.Job().attempt(), 4u);
}

TEST(FailingNode, IsNotTheOneOfAGangThatFailsOnDifferentNodes) {
  Cluster cluster = RunningWithNodes({"node-3"});
  cluster.Steps(1, 3);
  cluster.Exit("node-2", 2, 1, 0);
  cluster.TickUntil(cluster.now + std::chrono::seconds(1));
  cluster.Exit("node-1", 0, 1, 0);
  cluster.TickUntil(cluster.now + std::chrono::seconds(1));
  EXPECT_EQ(cluster.Job().attempt(), 3u);
  EXPECT_THAT(cluster.Job().gang(), ElementsAre("node-1", "node-2"));
}

TEST(FailingNode, AStepInBetweenBeginsAnew) {
  Cluster cluster = RunningWithNodes({"node-3"});
  cluster.Steps(1, 3);
  cluster.Exit("node-2", 2, 1, 0);
  cluster.TickUntil(cluster.now + std::chrono::seconds(1));
  cluster.Start();
  cluster.Steps(1, 2);
  cluster.Exit("node-2", 2, 1, 0);
  cluster.TickUntil(cluster.now + std::chrono::seconds(1));
  EXPECT_THAT(cluster.Job().gang(), ElementsAre("node-1", "node-2"));
}

TEST(SpareNodes, TheEndOfTheJobEndsTheReadiness) {
  Cluster cluster = RunningWithNodes({"node-3"});
  proto::Event stop;
  stop.mutable_job_stop_requested()->set_job_id("gpt-1");
  cluster.Feed(stop);
  EXPECT_THAT(ListsTo(cluster, "node-3"), ElementsAre(kGpt, kNone));
}

// Between a loss of the connection and the end of the grace period of one second.
TEST(SpareNodes, AFailedGangDoesNotWaitForTheGracePeriodOfALostNode) {
  Cluster cluster = RunningWithNodes({"node-3"});
  cluster.Disconnect("node-2");
  cluster.TickUntil(cluster.now + milliseconds(100));
  EXPECT_EQ(cluster.Job().state(), proto::RUNNING) << "its workers may continue";
  cluster.Exit("node-1", 0, 1, 0);
  cluster.TickUntil(cluster.now + milliseconds(200));
  EXPECT_EQ(cluster.Job().attempt(), 1u);
  cluster.TickUntil(cluster.now + milliseconds(100));
  EXPECT_EQ(cluster.Job().attempt(), 2u);
  EXPECT_THAT(cluster.Job().gang(), ElementsAre("node-1", "node-3"));
}

TEST(SpareNodes, AnAgentThatReturnsAtOnceKeepsItsPlaceInAFailedGang) {
  Cluster cluster = RunningWithNodes({"node-3"});
  cluster.Disconnect("node-2");
  cluster.Exit("node-1", 0, 1, 0);
  cluster.TickUntil(cluster.now + milliseconds(150));
  cluster.Join("node-2");
  cluster.TickUntil(cluster.now + milliseconds(200));
  EXPECT_EQ(cluster.Job().attempt(), 2u);
  EXPECT_THAT(cluster.Job().gang(), ElementsAre("node-1", "node-2"));
}

TEST(SpareNodes, WithoutAnIdleNodeAFailedGangWaitsForTheWholeGracePeriod) {
  Cluster cluster = Running();
  cluster.Disconnect("node-2");
  cluster.Exit("node-1", 0, 1, 0);
  cluster.TickUntil(cluster.now + milliseconds(900));
  cluster.Join("node-2");
  EXPECT_EQ(cluster.Job().attempt(), 2u);
}

}  // namespace
}  // namespace longhaul::runtime
