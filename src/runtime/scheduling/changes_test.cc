// What is said to start a job that waits, done: the job starts.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "runtime/scheduling/cluster_fixture.h"

namespace longhaul::runtime::scheduling_testing {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

// Asks why a job waits and does what is said, all at once; returns what it was.
std::vector<std::string> Help(Cluster& cluster, const std::string& id) {
  const Controller::Question question = cluster.controller.AskWhy(JobId(id));
  if (!question.scheduler.has_value()) return {"aside: " + question.aside};
  const auto why = question.scheduler->Explain(JobId(id), cluster.now, question.means);
  EXPECT_TRUE(why.ok()) << why.status();
  const Controller::Remedy remedy = cluster.controller.RemedyOf(JobId(id), why->fix);
  EXPECT_TRUE(remedy.missing.empty()) << why->sentence;
  EXPECT_FALSE(remedy.changes.empty()) << why->sentence;
  cluster.Ask(remedy.changes);
  return why->fix_texts;
}

proto::Job Stubborn(proto::Job job) {
  job.mutable_scheduling()->set_preemption("never");
  return job;
}

TEST(Changes, AHigherLimitOfAQueue) {
  Cluster cluster("queues: [{name: lab, limit: {accelerators: 2}}]\ndefault_queue: lab\n");
  cluster.Join("node-1", 4);
  cluster.Submit(Gang("a", 1));
  cluster.Submit(Gang("b", 1));
  ASSERT_EQ(cluster.StateOf("b"), proto::QUEUED);
  EXPECT_THAT(Help(cluster, "b"), ElementsAre(HasSubstr("raise the limit of queue 'lab'")));
  EXPECT_EQ(cluster.StateOf("b"), proto::RUNNING);
  EXPECT_EQ(cluster.controller.Queues()[1].limit().accelerators(), 4);
  // It stays through what makes the scheduler anew, until the file says otherwise.
  cluster.Join("node-2", 8);
  EXPECT_EQ(cluster.controller.Queues()[1].limit().accelerators(), 4);
  cluster.Started("queues: [{name: lab, limit: {accelerators: 3}}]\ndefault_queue: lab\n");
  cluster.Join("node-1", 4, 1);
  EXPECT_EQ(cluster.controller.Queues()[1].limit().accelerators(), 3);
}

TEST(Changes, FewerNodesForAJobThatHasNotBegun) {
  Cluster cluster;
  cluster.Join("node-1");
  cluster.Join("node-2");
  cluster.Submit(Stubborn(Gang("a", 1)));
  cluster.Submit(Gang("b", 2));
  EXPECT_THAT(Help(cluster, "b"), ElementsAre(HasSubstr("with 1 task instead of 2")));
  EXPECT_EQ(cluster.StateOf("b"), proto::RUNNING);
  EXPECT_THAT(cluster.GangOf("b"), ElementsAre("node-2"));
  cluster.Step("b");
  EXPECT_EQ(cluster.Job("b").step(), 1u);
}

TEST(Changes, ASizeIsKeptOnceAJobHasBegun) {
  Cluster cluster;
  cluster.Join("node-1");
  cluster.Join("node-2");
  cluster.Submit(Gang("low", 2));
  cluster.Step("low");
  cluster.Submit(WithPriority(Gang("high", 1), 10));
  cluster.Step("low");
  ASSERT_EQ(cluster.StateOf("low"), proto::QUEUED);
  EXPECT_FALSE(cluster.controller.AskWhy(JobId("low")).means.other_size);
  proto::ChangesAsked asked;
  *asked.add_changes()->mutable_job() = Gang("low", 1);
  EXPECT_THAT(cluster.controller.CheckChanges(asked).message(), HasSubstr("has begun with 2"));
  // Stopped alone it would come back at once.
  EXPECT_THAT(Help(cluster, "low"),
              ElementsAre("put it before all other jobs", HasSubstr("stop high")));
  const auto after = cluster.controller.AskWhy(JobId("low"));
  EXPECT_EQ(after.scheduler->StageOf(JobId("low")), scheduler::JobStage::kBound);
  cluster.Step("high");
  EXPECT_EQ(cluster.StateOf("high"), proto::QUEUED);
  EXPECT_EQ(cluster.StateOf("low"), proto::RUNNING);
}

TEST(Changes, ACordonedNodeBackInUse) {
  Cluster cluster;
  cluster.Join("node-1");
  cluster.Cordon("node-1", true);
  cluster.Submit(Gang("a", 1));
  EXPECT_THAT(Help(cluster, "a"), ElementsAre("bring back node-1, which is cordoned"));
  EXPECT_EQ(cluster.StateOf("a"), proto::RUNNING);
}

TEST(Changes, ANodeThatIsCutOffIsMissingAndCannotBeTakenIntoUse) {
  Cluster cluster;
  cluster.Join("node-1");
  cluster.Disconnect("node-1");
  cluster.Submit(Gang("a", 1));
  const Controller::Question question = cluster.controller.AskWhy(JobId("a"));
  ASSERT_TRUE(question.scheduler.has_value());
  const auto why = question.scheduler->Explain(JobId("a"), cluster.now, question.means);
  const Controller::Remedy remedy = cluster.controller.RemedyOf(JobId("a"), why->fix);
  EXPECT_THAT(remedy.missing, ElementsAre("node-1"));
  EXPECT_TRUE(remedy.changes.empty());
  proto::ChangesAsked asked;
  asked.add_changes()->set_use_node("node-1");
  EXPECT_THAT(cluster.controller.CheckChanges(asked).message(), HasSubstr("start its agent"));
}

TEST(Changes, ASpareTakenIntoUseStaysSoWhenItsAgentComesBack) {
  Cluster cluster("cluster: c.yaml\n", R"(
levels: [leaf]
models: {H100: {memory: 80GiB}}
kinds: {host: {model: H100, devices: 2, cpu: 8, memory: 64GiB}}
nodes:
  - {name: node-1, kind: host, at: {leaf: l1}, condition: spare}
)");
  cluster.Join("node-1");
  cluster.Submit(Gang("a", 1));
  ASSERT_EQ(cluster.StateOf("a"), proto::QUEUED);
  EXPECT_THAT(Help(cluster, "a"), ElementsAre("bring back node-1, which is spare"));
  EXPECT_EQ(cluster.StateOf("a"), proto::RUNNING);
  cluster.Cut("node-1");
  EXPECT_EQ(cluster.Node("node-1").condition(), "ready");
}

TEST(Changes, AnotherRuleOfTopology) {
  Cluster cluster("cluster: c.yaml\n", R"(
levels: [leaf]
models: {H100: {memory: 80GiB}}
kinds: {host: {model: H100, devices: 2, cpu: 8, memory: 64GiB}}
nodes:
  - {name: node-1, kind: host, at: {leaf: l1}}
  - {name: node-2, kind: host, at: {leaf: l1}}
  - {name: node-3, kind: host, at: {leaf: l2}}
  - {name: node-4, kind: host, at: {leaf: l2}}
)");
  // One job in each leaf.
  for (const char* node : {"node-1", "node-3", "node-2", "node-4"}) {
    cluster.Join(node);
    if (node == std::string("node-1")) cluster.Submit(Stubborn(Gang("a", 1)));
    if (node == std::string("node-3")) cluster.Submit(Stubborn(Gang("b", 1)));
  }
  proto::Job near = Gang("near", 2);
  near.mutable_scheduling()->set_topology("leaf");
  cluster.Submit(near);
  ASSERT_EQ(cluster.StateOf("near"), proto::QUEUED);
  EXPECT_THAT(Help(cluster, "near"), ElementsAre("require anywhere instead of one leaf"));
  EXPECT_EQ(cluster.StateOf("near"), proto::RUNNING);
  EXPECT_EQ(cluster.Job("near").job().scheduling().topology(), "");
}

TEST(Changes, AnotherJobStopped) {
  Cluster cluster;
  cluster.Join("node-1");
  cluster.Submit(Gang("a", 1));
  cluster.Step("a");
  cluster.Submit(Gang("b", 1));
  EXPECT_THAT(Help(cluster, "b"), ElementsAre("stop a"))
      << "b starts while a stops, so a does not come back first";
  EXPECT_EQ(cluster.StateOf("a"), proto::LEAVING);
  cluster.Step("a");
  EXPECT_EQ(cluster.StateOf("a"), proto::QUEUED);
  EXPECT_EQ(cluster.StateOf("b"), proto::RUNNING);
}

TEST(Changes, AJobStoppedThatIsEndingAnyway) {
  Cluster cluster;
  cluster.Join("node-1");
  cluster.Submit(Gang("a", 1));
  cluster.Step("a");
  cluster.Seal("a", "node-1", 1);
  cluster.Stop("a");
  ASSERT_EQ(cluster.StateOf("a"), proto::STOPPING) << "its snapshot is not on disk yet";
  cluster.Submit(Gang("b", 1));
  ASSERT_EQ(cluster.StateOf("b"), proto::QUEUED);
  EXPECT_THAT(Help(cluster, "b"), ElementsAre("stop a"));
  EXPECT_EQ(cluster.StateOf("a"), proto::STOPPING);
  cluster.Persist("a", "node-1", 1, 1);
  EXPECT_EQ(cluster.StateOf("a"), proto::STOPPED);
  EXPECT_EQ(cluster.StateOf("b"), proto::RUNNING);
}

TEST(Changes, AJobPutFirst) {
  Cluster cluster("scheduling: {backfill: false}");
  cluster.Join("node-1");
  cluster.Join("node-2");
  cluster.Submit(Stubborn(Gang("a", 1)));
  cluster.Submit(Gang("wide", 2));
  cluster.Submit(Gang("small", 1));
  ASSERT_EQ(cluster.StateOf("small"), proto::QUEUED);
  EXPECT_THAT(Help(cluster, "small"), ElementsAre("put it before all other jobs"));
  EXPECT_EQ(cluster.StateOf("small"), proto::RUNNING);
}

TEST(Changes, OneThatCannotBeDoneLeavesAllUndone) {
  Cluster cluster(kLabs);
  cluster.Join("node-1");
  cluster.Submit(Gang("a", 1));
  proto::Event event;
  auto& asked = *event.mutable_changes_asked();
  asked.add_changes()->set_evict("a");
  auto& limit = *asked.add_changes()->mutable_limit();
  limit.set_queue("red");
  limit.mutable_limit()->set_accelerators(1);
  EXPECT_THAT(cluster.controller.CheckChanges(asked).message(),
              HasSubstr("is guaranteed 2 accelerators"));
  cluster.Feed(event);
  EXPECT_EQ(cluster.StateOf("a"), proto::RUNNING);
  const auto refused = [&](const proto::Change& change) {
    proto::ChangesAsked one;
    *one.add_changes() = change;
    return cluster.controller.CheckChanges(one).message();
  };
  proto::Change change;
  EXPECT_THAT(refused(change), HasSubstr("says nothing"));
  change.set_expedite("a");
  EXPECT_THAT(refused(change), HasSubstr("does not wait"));
  change.set_evict("b");
  EXPECT_THAT(refused(change), HasSubstr("no job with the id b"));
  change.set_use_node("node-9");
  EXPECT_THAT(refused(change), HasSubstr("no node named node-9"));
  change.mutable_limit()->set_queue("green");
  EXPECT_THAT(refused(change), HasSubstr("no queue 'green'"));
  change.mutable_trust_link()->set_name("l1");
  EXPECT_THAT(refused(change), HasSubstr("named l1"));
}

TEST(Changes, AReplayMakesThemAgain) {
  Cluster cluster(kLabs);
  cluster.Join("node-1");
  cluster.Submit(Gang("a", 1));
  cluster.Submit(Gang("b", 1));
  cluster.Step("a");
  Help(cluster, "b");
  cluster.Step("a");
  Controller replayed{Cluster::Patient()};
  for (const auto& [now, event] : cluster.log) (void)replayed.Step(event, now);
  EXPECT_EQ(replayed.StateHash(), cluster.controller.StateHash());
}

}  // namespace
}  // namespace longhaul::runtime::scheduling_testing
