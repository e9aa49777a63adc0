// The check of a gang's nodes after repeated hangs: when it is ordered, and what follows from it.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "runtime/controller/cluster_fixture.h"

namespace longhaul::runtime {
namespace {

using namespace controller_testing;
using std::chrono::seconds;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

void CloseOn(Cluster& cluster, const std::vector<std::string>& nodes) {
  for (const std::string& node : nodes) {
    proto::AttemptClosed closed;
    closed.set_job_id("gpt-1");
    closed.set_attempt(cluster.Job().attempt());
    cluster.Report(node, &proto::Event::mutable_attempt_closed, closed);
  }
}

// Both nodes stop making steps, once they have made some.
void Hang(Cluster& cluster) {
  const uint64_t attempt = cluster.Job().attempt();
  for (int i = 0; i < 900 && cluster.Job().state() != proto::RECOVERING; ++i) {
    if (cluster.Job().attempt() != attempt) return;
    cluster.TickUntil(cluster.now + seconds(1));
  }
}

// A gang that has hung twice without a step in between.
Cluster HungTwice(const std::vector<std::string>& others) {
  Cluster cluster = Running();
  for (const std::string& node : others) cluster.Join(node);
  cluster.Steps(1, 5);
  Hang(cluster);
  EXPECT_EQ(cluster.Job().attempt(), 2u);
  EXPECT_THAT(cluster.checks, IsEmpty()) << "a plain restart may be the answer";
  cluster.Start();
  Hang(cluster);
  EXPECT_EQ(cluster.Job().attempt(), 2u);
  EXPECT_EQ(cluster.Job().reason(), "its nodes are checked");
  EXPECT_THAT(cluster.checks, IsEmpty()) << "its workers have not ended";
  return cluster;
}

Cluster Checked(const std::vector<std::string>& others) {
  Cluster cluster = HungTwice(others);
  CloseOn(cluster, {"node-1", "node-2"});
  EXPECT_EQ(cluster.checks.size(), 1u);
  return cluster;
}

proto::Event Result() {
  proto::Event event;
  event.mutable_nodes_checked()->set_job_id("gpt-1");
  event.mutable_nodes_checked()->set_fault(2);
  return event;
}

proto::Event Names(const std::string& node) {
  proto::Event event = Result();
  proto::NodesChecked::Faulty& faulty = *event.mutable_nodes_checked()->add_faulty();
  faulty.set_name(node);
  faulty.set_evidence("a copy differs");
  return event;
}

proto::Event NamesBoth() {
  proto::Event event = Names("node-1");
  event.mutable_nodes_checked()->add_faulty()->set_name("node-2");
  return event;
}

std::string ConditionOf(const Cluster& cluster, const std::string& name) {
  for (const proto::NodeStatus& node : cluster.controller.AllNodes()) {
    if (node.name() == name) return node.cordoned() ? "cordoned" : node.condition();
  }
  return "";
}

TEST(ControllerNodeChecks, ASecondHangWithoutAStepChecksTheNodesOnceTheirWorkersHaveEnded) {
  const Cluster cluster = Checked({"node-3"});
  EXPECT_EQ(cluster.checks[0].job, "gpt-1");
  EXPECT_EQ(cluster.checks[0].fault, 2u);
  EXPECT_THAT(cluster.checks[0].nodes, ElementsAre(NodeId("node-1"), NodeId("node-2")));
  EXPECT_EQ(cluster.Job().state(), proto::RECOVERING);
}

TEST(ControllerNodeChecks, AFaultyNodeIsReplacedAndCordoned) {
  Cluster cluster = Checked({"node-3"});
  cluster.Feed(Names("node-1"));
  EXPECT_EQ(cluster.Job().attempt(), 3u);
  EXPECT_THAT(cluster.Job().gang(), testing::UnorderedElementsAre("node-2", "node-3"));
  EXPECT_EQ(ConditionOf(cluster, "node-1"), "cordoned");
  const proto::Fault fault = cluster.Job().faults(1);
  EXPECT_EQ(fault.node(), "node-1");
  EXPECT_THAT(fault.what(), HasSubstr("the check of its nodes names node-1: a copy differs"));
  EXPECT_THAT(fault.action(), HasSubstr("replace the node"));
}

TEST(ControllerNodeChecks, WithoutAnIdleNodeTheGangStaysAndTheNodeIsCordoned) {
  Cluster cluster = Checked({});
  cluster.Feed(Names("node-2"));
  EXPECT_EQ(cluster.Job().attempt(), 3u);
  EXPECT_THAT(cluster.Job().gang(), ElementsAre("node-1", "node-2"));
  EXPECT_EQ(ConditionOf(cluster, "node-2"), "cordoned");
}

TEST(ControllerNodeChecks, OneEndOfAFaultyConnectionLeavesAndKeepsWork) {
  Cluster cluster = Checked({"node-3"});
  proto::Event event = Result();
  proto::NodesChecked::Link& link = *event.mutable_nodes_checked()->add_links();
  link.set_first("node-1");
  link.set_second("node-2");
  link.set_evidence("4 of 4 pair tests failed");
  cluster.Feed(event);
  EXPECT_EQ(cluster.Job().attempt(), 3u);
  EXPECT_THAT(cluster.Job().gang(), ElementsAre("node-1", "node-3"));
  EXPECT_EQ(ConditionOf(cluster, "node-2"), "suspect");
}

TEST(ControllerNodeChecks, AllFaultyNodesAreReplacedAtOnce) {
  Cluster cluster = Checked({"node-3", "node-4"});
  cluster.Feed(NamesBoth());
  EXPECT_EQ(cluster.Job().attempt(), 3u);
  EXPECT_THAT(cluster.Job().gang(), testing::UnorderedElementsAre("node-3", "node-4"));
  EXPECT_EQ(ConditionOf(cluster, "node-1"), "cordoned");
  EXPECT_EQ(ConditionOf(cluster, "node-2"), "cordoned");
}

TEST(ControllerNodeChecks, AsManyFaultyNodesAreReplacedAsOthersAreIdle) {
  Cluster cluster = Checked({"node-3"});
  cluster.Feed(NamesBoth());
  EXPECT_EQ(cluster.Job().attempt(), 3u);
  EXPECT_THAT(cluster.Job().gang(), testing::UnorderedElementsAre("node-2", "node-3"));
  EXPECT_EQ(ConditionOf(cluster, "node-2"), "cordoned");
}

TEST(ControllerNodeChecks, TheConnectionOfANodeThatLeavesAnywayKeepsItsOtherEnd) {
  Cluster cluster = Checked({"node-3", "node-4"});
  proto::Event event = Names("node-1");
  proto::NodesChecked::Link& link = *event.mutable_nodes_checked()->add_links();
  link.set_first("node-1");
  link.set_second("node-2");
  cluster.Feed(event);
  EXPECT_THAT(cluster.Job().gang(), testing::Contains("node-2"));
}

// The job has one process a node, and each node has two slots.
TEST(ControllerNodeChecks, NodesThatRunAnotherJobAreNotChecked) {
  Cluster cluster;
  cluster.Join("node-1");
  cluster.Join("node-2");
  proto::Job job = TwoByTwo();
  job.set_processes_per_node(1);
  cluster.Submit(job);
  proto::Job other = job;
  other.set_id("other-1");
  other.set_name("other");
  other.set_nodes(1);
  cluster.Submit(other);
  cluster.Start();
  cluster.Steps(1, 5);
  Hang(cluster);
  cluster.Start();
  Hang(cluster);
  EXPECT_EQ(cluster.Job().attempt(), 3u);
  EXPECT_THAT(cluster.checks, IsEmpty());
}

TEST(ControllerNodeChecks, AGangOfOneNodeIsNotChecked) {
  Cluster cluster;
  cluster.Join("node-1");
  proto::Job job = TwoByTwo();
  job.set_nodes(1);
  cluster.Submit(job);
  for (int i = 0; i < 3; ++i) {
    cluster.TickUntil(cluster.now + seconds(601));
    CloseOn(cluster, {"node-1"});
    EXPECT_THAT(cluster.checks, IsEmpty());
  }
  EXPECT_GE(cluster.Job().attempt(), 3u);
}

// Two of three nodes are behind the third.
TEST(ControllerStarts, NodesThatAreBehindTheOthersAreListedAndOnlyOneAloneIsNamed) {
  for (const size_t behind : {1u, 2u}) {
    Cluster cluster;
    proto::Job job = TwoByTwo();
    job.set_nodes(3);
    for (const char* node : {"node-1", "node-2", "node-3"}) cluster.Join(node);
    cluster.Submit(job);
    proto::StoreOpened opened;
    opened.set_job_id("gpt-1");
    opened.set_attempt(1);
    opened.set_port(4000);
    cluster.Report("node-1", &proto::Event::mutable_store_opened, opened);
    const std::vector<std::string> ahead = {"node-3", "node-1"};
    for (size_t i = 0; i + behind < 3; ++i) {
      proto::PhaseEntered entered;
      entered.set_job_id("gpt-1");
      entered.set_attempt(1);
      entered.set_phase(proto::PhaseEntered::RENDEZVOUS);
      cluster.Report(ahead[i], &proto::Event::mutable_phase_entered, entered);
    }
    cluster.TickUntil(cluster.now + std::chrono::minutes(11));
    ASSERT_EQ(cluster.Job().faults_size(), 1);
    const proto::Fault fault = cluster.Job().faults(0);
    EXPECT_EQ(fault.node(), behind == 1 ? "node-2" : "");
    EXPECT_THAT(fault.what(), HasSubstr(behind == 1 ? "behind the others: node-2"
                                                    : "behind the others: node-1 node-2"));
  }
}

TEST(ControllerStarts, TheTimeWithoutAControllerIsNoLateStart) {
  Cluster cluster = Running();
  cluster.Steps(1, 5);
  cluster.Exit("node-1", 0, 0, 9);
  cluster.TickUntil(cluster.now + seconds(1));
  ASSERT_EQ(cluster.Job().attempt(), 2u);
  cluster.now += seconds(600);
  proto::Event started;
  started.mutable_controller_started();
  cluster.Feed(started);
  for (const char* node : {"node-1", "node-2"}) cluster.Join(node);
  cluster.TickUntil(cluster.now + seconds(20));
  EXPECT_EQ(cluster.Job().faults_size(), 1);
  cluster.TickUntil(cluster.now + seconds(120));
  EXPECT_GE(cluster.Job().faults_size(), 2) << "its limits count again";
}

TEST(ControllerStarts, AKnownPhaseIsGivenUpBeforeTheWholeStart) {
  Cluster cluster = Running();
  cluster.Steps(1, 5);
  cluster.Exit("node-1", 0, 0, 9);
  cluster.TickUntil(cluster.now + seconds(40));
  EXPECT_EQ(cluster.Job().faults_size(), 2) << "START_UP took a moment, and may take 30 s";
  EXPECT_THAT(cluster.Job().faults(1).what(), HasSubstr("no first step 30 s after the start"));
}

TEST(ControllerNodeChecks, ACheckThatFindsNothingRestartsInPlaceAndTheNextHangChecksAgain) {
  Cluster cluster = Checked({"node-3"});
  cluster.Feed(Result());
  EXPECT_EQ(cluster.Job().attempt(), 3u);
  EXPECT_THAT(cluster.Job().gang(), ElementsAre("node-1", "node-2"));
  cluster.Start();
  Hang(cluster);
  CloseOn(cluster, {"node-1", "node-2"});
  ASSERT_EQ(cluster.checks.size(), 2u);
  EXPECT_EQ(cluster.checks[1].fault, 3u);
}

TEST(ControllerNodeChecks, AStepInBetweenMakesTheNextHangAFirstOne) {
  Cluster cluster = Running();
  cluster.Steps(1, 5);
  Hang(cluster);
  cluster.Start();
  cluster.Steps(1, 7);
  Hang(cluster);
  EXPECT_EQ(cluster.Job().attempt(), 3u);
  EXPECT_THAT(cluster.checks, IsEmpty());
}

TEST(ControllerNodeChecks, WorkersThatSigkillDoesNotEndNameTheirNode) {
  Cluster cluster = HungTwice({"node-3"});
  CloseOn(cluster, {"node-1"});
  EXPECT_THAT(cluster.checks, IsEmpty());
  cluster.TickUntil(cluster.now + seconds(11));
  EXPECT_EQ(cluster.Job().attempt(), 3u);
  EXPECT_THAT(cluster.Job().gang(), ElementsAre("node-1", "node-3"));
  EXPECT_THAT(cluster.Job().faults(1).what(),
              HasSubstr("node-2: its workers have not ended 10 s after SIGKILL"));
}

TEST(ControllerNodeChecks, WorkersThatNoNodeCanEndNameNone) {
  Cluster cluster = HungTwice({"node-3"});
  cluster.TickUntil(cluster.now + seconds(11));
  EXPECT_EQ(cluster.Job().attempt(), 3u);
  EXPECT_THAT(cluster.Job().gang(), ElementsAre("node-1", "node-2"));
}

TEST(ControllerNodeChecks, ACheckWithoutAResultIsGivenUp) {
  Cluster cluster = Checked({"node-3"});
  cluster.TickUntil(cluster.now + seconds(170));
  EXPECT_EQ(cluster.Job().attempt(), 2u);
  cluster.TickUntil(cluster.now + seconds(20));
  EXPECT_EQ(cluster.Job().attempt(), 3u);
  // Its late result is of an attempt that is over.
  cluster.Feed(Names("node-1"));
  EXPECT_EQ(cluster.Job().attempt(), 3u);
  EXPECT_EQ(ConditionOf(cluster, "node-1"), "ready");
}

TEST(ControllerNodeChecks, ResultsOfOthersChangeNothing) {
  Cluster cluster = Checked({"node-3"});
  proto::Event other = Names("node-1");
  other.mutable_nodes_checked()->set_fault(1);
  cluster.Feed(other);
  other = Names("node-1");
  other.mutable_nodes_checked()->set_job_id("other");
  cluster.Feed(other);
  EXPECT_EQ(cluster.Job().attempt(), 2u);
  cluster.Feed(Names("node-3"));  // not in the gang
  EXPECT_EQ(cluster.Job().attempt(), 3u);
  EXPECT_THAT(cluster.Job().gang(), ElementsAre("node-1", "node-2"));
  EXPECT_EQ(ConditionOf(cluster, "node-3"), "ready");
}

TEST(ControllerNodeChecks, AControllerThatStartsAgainOrdersTheCheckAnew) {
  Cluster cluster = Checked({"node-3"});
  proto::Event started;
  started.mutable_controller_started();
  cluster.Feed(started);
  ASSERT_EQ(cluster.checks.size(), 1u);
  for (const char* node : {"node-1", "node-2", "node-3"}) cluster.Join(node);
  ASSERT_EQ(cluster.checks.size(), 2u);
  cluster.Feed(Names("node-1"));
  EXPECT_EQ(cluster.Job().attempt(), 3u);
  EXPECT_THAT(cluster.Job().gang(), testing::UnorderedElementsAre("node-2", "node-3"));
}

TEST(ControllerNodeChecks, AJobThatIsStoppedMeanwhileEnds) {
  Cluster cluster = Checked({"node-3"});
  proto::Event stop;
  stop.mutable_job_stop_requested()->set_job_id("gpt-1");
  cluster.Feed(stop);
  cluster.TickUntil(cluster.now + seconds(400));
  cluster.Feed(Names("node-1"));
  EXPECT_EQ(cluster.Job().state(), proto::STOPPED);
  EXPECT_EQ(ConditionOf(cluster, "node-1"), "ready");
}

TEST(ControllerNodeChecks, NoLimitMeansNoCheck) {
  ControllerOptions options;
  options.node_check_limit = Duration(0);
  Cluster cluster = Running(options);
  cluster.Steps(1, 5);
  Hang(cluster);
  cluster.Start();
  Hang(cluster);
  EXPECT_EQ(cluster.Job().attempt(), 3u);
  EXPECT_THAT(cluster.checks, IsEmpty());
}

}  // namespace
}  // namespace longhaul::runtime
