// The check of new nodes before a gang starts on them.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "runtime/controller/cluster_fixture.h"

namespace longhaul::runtime {
namespace {

using namespace controller_testing;
using std::chrono::minutes;
using std::chrono::seconds;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::SizeIs;

void Configure(Cluster& cluster, const std::string& text) {
  proto::Event event;
  event.mutable_controller_started()->mutable_scheduling()->set_text(text);
  cluster.Feed(event);
}

// A cluster that checks new nodes; the job waits for its check, if it has one.
Cluster Checking(const std::vector<std::string>& nodes) {
  Cluster cluster;
  Configure(cluster, "scheduling: {check_new_nodes: true}");
  for (const std::string& node : nodes) cluster.Join(node);
  cluster.Submit(TwoByTwo());
  return cluster;
}

size_t StoresOrdered(const Cluster& cluster) {
  size_t found = 0;
  for (const auto& [node, command] : cluster.sent) found += command.has_open_store();
  return found;
}

proto::Event Result(const Cluster& cluster, const std::string& faulty = "") {
  proto::Event event;
  event.mutable_nodes_checked()->set_job_id("gpt-1");
  event.mutable_nodes_checked()->set_attempt(cluster.Job().attempt());
  if (faulty.empty()) return event;
  proto::NodesChecked::Faulty& found = *event.mutable_nodes_checked()->add_faulty();
  found.set_name(faulty);
  found.set_evidence("its disk is slow");
  return event;
}

TEST(StartChecks, AGangStartsOnceItsNewNodesAreGood) {
  Cluster cluster = Checking({"node-1", "node-2"});
  ASSERT_THAT(cluster.checks, SizeIs(1));
  EXPECT_EQ(cluster.checks[0].job, "gpt-1");
  EXPECT_EQ(cluster.checks[0].fault, 0u);
  EXPECT_EQ(cluster.checks[0].attempt, 1u);
  EXPECT_THAT(cluster.checks[0].nodes, SizeIs(2));
  EXPECT_EQ(StoresOrdered(cluster), 0u);
  EXPECT_EQ(cluster.Job().reason(), "its nodes are checked before it starts");
  cluster.Feed(Result(cluster));
  EXPECT_EQ(StoresOrdered(cluster), 1u);
  cluster.Start();
  cluster.Steps(1, 3);
  EXPECT_EQ(cluster.Job().state(), proto::RUNNING);
  EXPECT_EQ(cluster.Job().faults_size(), 0);
}

TEST(StartChecks, NodesAreCheckedOnce) {
  Cluster cluster = Checking({"node-1", "node-2"});
  cluster.Feed(Result(cluster));
  cluster.Start();
  cluster.Steps(1, 3);
  cluster.Exit("node-1", 0, -1, 9);
  cluster.TickUntil(cluster.now + seconds(1));
  EXPECT_EQ(cluster.Job().attempt(), 2u);
  EXPECT_THAT(cluster.checks, SizeIs(1)) << "also a restart needs no other one";
}

TEST(StartChecks, ANodeThatWasLostIsNewAgain) {
  Cluster cluster = Checking({"node-1", "node-2"});
  cluster.Feed(Result(cluster));
  cluster.Start();
  cluster.Steps(1, 3);
  cluster.Disconnect("node-2");
  cluster.TickUntil(cluster.now + minutes(1));
  cluster.Join("node-2", 2);
  cluster.TickUntil(cluster.now + seconds(5));
  ASSERT_EQ(cluster.Job().attempt(), 2u);
  EXPECT_THAT(cluster.checks, SizeIs(2));
}

TEST(StartChecks, AFaultyNodeIsReplacedAndCordonedBeforeItCostsAStep) {
  Cluster cluster = Checking({"node-1", "node-2", "node-3"});
  ASSERT_THAT(cluster.checks, SizeIs(1));
  const std::string bad = cluster.checks[0].nodes[1].value();
  cluster.Feed(Result(cluster, bad));
  ASSERT_EQ(cluster.Job().faults_size(), 1);
  EXPECT_EQ(cluster.Job().faults(0).node(), bad);
  EXPECT_THAT(cluster.Job().faults(0).what(),
              HasSubstr("has failed the check before the start: its disk is slow"));
  for (const auto& node : cluster.controller.AllNodes()) {
    EXPECT_EQ(node.cordoned(), node.name() == bad) << node.name();
  }
  cluster.TickUntil(cluster.now + seconds(1));
  EXPECT_EQ(cluster.Job().attempt(), 2u);
  ASSERT_THAT(cluster.checks, SizeIs(2)) << "the node in its place is new too";
  for (const NodeId& node : cluster.checks[1].nodes) EXPECT_NE(node.value(), bad);
  EXPECT_EQ(StoresOrdered(cluster), 0u);
  cluster.Feed(Result(cluster));
  EXPECT_EQ(StoresOrdered(cluster), 1u);
}

TEST(StartChecks, AGangThatCannotHaveOtherNodesStartsOnThem) {
  Cluster cluster = Checking({"node-1", "node-2"});
  cluster.Feed(Result(cluster, "node-2"));
  cluster.TickUntil(cluster.now + seconds(1));
  EXPECT_EQ(cluster.Job().attempt(), 2u);
  EXPECT_THAT(cluster.checks, SizeIs(1));
  EXPECT_EQ(StoresOrdered(cluster), 1u);
}

TEST(StartChecks, ACheckThatDoesNotEndIsNotWaitedFor) {
  Cluster cluster = Checking({"node-1", "node-2"});
  cluster.TickUntil(cluster.now + minutes(4));
  EXPECT_EQ(StoresOrdered(cluster), 1u);
  cluster.Feed(Result(cluster, "node-2"));
  EXPECT_EQ(cluster.Job().faults_size(), 0) << "it comes too late";
  cluster.Start();
  EXPECT_EQ(cluster.Job().state(), proto::RUNNING);
}

TEST(StartChecks, TheResultOfAnEarlierAttemptIsNotTaken) {
  Cluster cluster = Checking({"node-1", "node-2"});
  const proto::Event late = Result(cluster);
  cluster.Disconnect("node-2");
  cluster.TickUntil(cluster.now + minutes(1));
  cluster.Join("node-2", 2);
  cluster.TickUntil(cluster.now + seconds(5));
  ASSERT_EQ(cluster.Job().attempt(), 2u);
  ASSERT_THAT(cluster.checks, SizeIs(2));
  cluster.Feed(late);
  EXPECT_EQ(StoresOrdered(cluster), 0u);
  cluster.Feed(Result(cluster));
  EXPECT_EQ(StoresOrdered(cluster), 1u);
}

TEST(StartChecks, AControllerThatStartsAgainDoesNotWaitForALostResult) {
  Cluster cluster = Checking({"node-1", "node-2"});
  Configure(cluster, "scheduling: {check_new_nodes: true}");
  cluster.Join("node-1");
  cluster.Join("node-2");
  EXPECT_GE(StoresOrdered(cluster), 1u);
  cluster.Start();
  cluster.Steps(1, 2);
  EXPECT_EQ(cluster.Job().state(), proto::RUNNING);
}

TEST(StartChecks, AJobThatIsStoppedMeanwhileEnds) {
  Cluster cluster = Checking({"node-1", "node-2"});
  proto::Event stop;
  stop.mutable_job_stop_requested()->set_job_id("gpt-1");
  cluster.Feed(stop);
  for (const char* node : {"node-1", "node-2"}) {
    proto::AttemptClosed closed;
    closed.set_job_id("gpt-1");
    closed.set_attempt(1);
    cluster.Report(node, &proto::Event::mutable_attempt_closed, closed);
  }
  cluster.Feed(Result(cluster));
  cluster.TickUntil(cluster.now + minutes(5));
  EXPECT_EQ(cluster.Job().state(), proto::STOPPED);
  EXPECT_EQ(StoresOrdered(cluster), 0u);
}

TEST(StartChecks, OneNodeIsNotChecked) {
  Cluster cluster;
  Configure(cluster, "scheduling: {check_new_nodes: true}");
  cluster.Join("node-1");
  proto::Job job = TwoByTwo();
  job.set_nodes(1);
  cluster.Submit(job);
  EXPECT_THAT(cluster.checks, IsEmpty());
  EXPECT_EQ(StoresOrdered(cluster), 1u);
}

TEST(StartChecks, NothingIsCheckedUnlessTheFileSaysSo) {
  Cluster cluster;
  cluster.Join("node-1");
  cluster.Join("node-2");
  cluster.Submit(TwoByTwo());
  EXPECT_THAT(cluster.checks, IsEmpty());
  EXPECT_EQ(StoresOrdered(cluster), 1u);
}

}  // namespace
}  // namespace longhaul::runtime
