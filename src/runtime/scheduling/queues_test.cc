// Queues, and the controller's file.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "runtime/scheduling/cluster_fixture.h"

namespace longhaul::runtime::scheduling_testing {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

TEST(Queues, LendWhatIsIdleAndTakeItBack) {
  Cluster cluster(kLabs);
  cluster.Join("node-1");
  cluster.Join("node-2");
  cluster.Submit(Gang("r1", 1));
  cluster.Submit(Gang("r2", 1));
  cluster.Step("r1");
  cluster.Step("r2");
  const auto queues = cluster.controller.Queues();
  ASSERT_EQ(queues.size(), 3u);
  EXPECT_EQ(queues[1].name(), "red");
  EXPECT_EQ(queues[1].usage().accelerators(), 4);
  EXPECT_EQ(queues[1].borrowed().accelerators(), 2);
  EXPECT_EQ(queues[1].running(), 2u);
  cluster.Submit(InQueue(Gang("b1", 1), "blue"));
  for (const char* job : {"r1", "r2"}) cluster.Step(job);
  EXPECT_EQ(cluster.StateOf("b1"), proto::RUNNING);
  const bool first = cluster.StateOf("r1") == proto::QUEUED;
  EXPECT_EQ(cluster.StateOf(first ? "r2" : "r1"), proto::RUNNING) << "no more than was borrowed";
  EXPECT_EQ(cluster.StateOf(first ? "r1" : "r2"), proto::QUEUED);
}

TEST(Queues, RefuseWhatCanNeverRun) {
  Cluster cluster(kLabs);
  cluster.Join("node-1");
  const auto says = [&](const proto::Job& job) {
    return cluster.controller.CheckSubmission(job).message();
  };
  EXPECT_THAT(says(InQueue(Gang("a", 1), "green")), HasSubstr("there is no queue 'green'"));
  proto::Job job = Gang("a", 1);
  job.mutable_scheduling()->set_priority_name("urgent");
  EXPECT_THAT(says(job), HasSubstr("no priority named 'urgent'"));
  job = Gang("a", 1);
  job.mutable_scheduling()->set_topology("block");
  EXPECT_THAT(says(job), HasSubstr("no level 'block'"));
  job = Gang("a", 1);
  job.mutable_scheduling()->set_preemption("often");
  EXPECT_THAT(says(job), HasSubstr("'often' is not never"));
  EXPECT_TRUE(cluster.controller.CheckSubmission(Gang("a", 1)).ok());
}

TEST(Configuration, AChangedFileTakesEffectAtARestartAndKeepsWhatRuns) {
  Cluster cluster;
  cluster.Join("node-1");
  cluster.Join("node-2");
  cluster.Submit(Gang("a", 1));
  cluster.Submit(Gang("b", 2));
  cluster.Step("a");
  cluster.Started(kLabs);
  EXPECT_EQ(cluster.StateOf("a"), proto::RUNNING);
  EXPECT_EQ(cluster.StateOf("b"), proto::QUEUED);
  for (const char* node : {"node-1", "node-2"}) cluster.Join(node, 2, 1);
  EXPECT_EQ(cluster.controller.Queues().size(), 3u);
  EXPECT_EQ(cluster.Job("a").attempt(), 1u);
  EXPECT_THAT(cluster.GangOf("a"), ElementsAre("node-1"));
}

TEST(Configuration, ADeclaredClusterRefusesWhatIsLarger) {
  proto::SchedulingConfiguration file;
  file.set_text("cluster: two.yaml\n");
  file.set_cluster_text(kTwoNodes);
  ASSERT_TRUE(Controller::CheckConfiguration(file).ok()) << Controller::CheckConfiguration(file);
  Cluster cluster(file.text(), file.cluster_text());
  cluster.Join("node-1");
  cluster.Submit(Gang("small", 1));
  EXPECT_THAT(cluster.controller.CheckSubmission(Gang("large", 3)).message(),
              HasSubstr("the largest size that fits this cluster is 2"));
  proto::Job near = Gang("near", 2);
  near.mutable_scheduling()->set_topology("leaf");
  EXPECT_THAT(cluster.controller.CheckSubmission(near).message(),
              HasSubstr("one of its domains is 1"));
  cluster.Submit(Gang("both", 2));
  EXPECT_EQ(cluster.StateOf("both"), proto::QUEUED);
  cluster.Stop("small");
  cluster.Join("node-2");
  EXPECT_EQ(cluster.StateOf("both"), proto::RUNNING);
}

TEST(Configuration, RefusesPromisesThatADeclaredClusterCannotKeep) {
  proto::SchedulingConfiguration file;
  file.set_text("cluster: two.yaml\nqueues: [{name: a, guarantee: {accelerators: 5}}]\n");
  file.set_cluster_text(kTwoNodes);
  const Status refused = Controller::CheckConfiguration(file);
  EXPECT_EQ(refused.code(), Code::kInvalidArgument);
  EXPECT_THAT(refused.message(), HasSubstr("5 accelerators"));
  file.set_cluster_text("nodes: 3");
  EXPECT_THAT(Controller::CheckConfiguration(file).message(), HasSubstr("two.yaml:1"));
}

}  // namespace
}  // namespace longhaul::runtime::scheduling_testing
