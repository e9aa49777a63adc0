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

// A node of two H100 and one of two A100, and a queue that may hold one H100.
constexpr const char* kTwoModels = R"(
levels: [leaf]
models: {H100: {memory: 80GiB}, A100: {memory: 40GiB}}
kinds:
  new: {model: H100, devices: 2, cpu: 8, memory: 64GiB}
  old: {model: A100, devices: 2, cpu: 8, memory: 64GiB}
nodes:
  - {name: node-1, kind: new, at: {leaf: l1}}
  - {name: node-2, kind: old, at: {leaf: l1}}
)";
constexpr const char* kModelQuotas = R"(
cluster: cluster.yaml
queues: [{name: lab, guarantee: {accelerators: 1, devices: {H100: 1}}, limit: {devices: {H100: 1}}}]
default_queue: lab
)";

proto::Job OnH100(const std::string& id, uint32_t workers) {
  proto::Job job = Gang(id, 1, workers);
  job.mutable_scheduling()->add_devices("H100");
  return job;
}

TEST(Queues, CountDeviceModelsAndTakeALimitOfAModelFromAnOperator) {
  Cluster cluster(kModelQuotas, kTwoModels);
  cluster.Join("node-1");
  cluster.Join("node-2");
  EXPECT_THAT(cluster.controller.CheckSubmission(OnH100("both", 2)).message(),
              HasSubstr("needs 2 accelerators of model H100, but queue 'lab' is limited to 1 "
                        "accelerators of model H100"));
  cluster.Submit(OnH100("a", 1));
  cluster.Submit(OnH100("b", 1));
  cluster.Submit(Gang("c", 1, 2));
  EXPECT_EQ(cluster.StateOf("a"), proto::RUNNING);
  EXPECT_EQ(cluster.StateOf("b"), proto::QUEUED);
  EXPECT_THAT(cluster.GangOf("c"), ElementsAre("node-2"));
  const proto::QueueStatus lab = cluster.controller.Queues()[1];
  ASSERT_EQ(lab.usage().devices_size(), 1);
  EXPECT_EQ(lab.usage().devices(0).model(), "H100");
  EXPECT_EQ(lab.usage().devices(0).accelerators(), 1);
  EXPECT_EQ(lab.limit().devices(0).accelerators(), 1);
  EXPECT_EQ(lab.limit().accelerators(), -1);

  proto::Change change;
  change.mutable_limit()->set_queue("lab");
  *change.mutable_limit()->mutable_limit() = lab.limit();
  proto::DeviceAmount& limit = *change.mutable_limit()->mutable_limit()->mutable_devices(0);
  const auto refusal = [&](const std::string& model, double amount) {
    limit.set_model(model);
    limit.set_accelerators(amount);
    proto::ChangesAsked asked;
    *asked.add_changes() = change;
    return cluster.controller.CheckChanges(asked).message();
  };
  EXPECT_THAT(refusal("H100", 0),
              HasSubstr("queue 'lab' is guaranteed 1 accelerators of model H100; its limit cannot "
                        "be 0 accelerators of model H100"));
  EXPECT_THAT(refusal("H100", -2), HasSubstr("a limit is an amount of up to"));
  EXPECT_THAT(refusal("B200", 1), HasSubstr("no queue has a quota of device model 'B200'"));
  EXPECT_EQ(refusal("H100", 2), "");
  cluster.Ask({change});
  EXPECT_EQ(cluster.StateOf("b"), proto::RUNNING);
  EXPECT_EQ(cluster.controller.Queues()[1].limit().devices(0).accelerators(), 2);
  EXPECT_TRUE(cluster.controller.CheckInvariants().ok());
}

TEST(Configuration, RefusesAQuotaOfAModelThatTheDeclaredClusterLacks) {
  proto::SchedulingConfiguration file;
  file.set_text("cluster: two.yaml\nqueues: [{name: a, limit: {devices: {H10: 5}}}]\n");
  file.set_cluster_text(kTwoNodes);
  EXPECT_THAT(Controller::CheckConfiguration(file).message(),
              HasSubstr("queue 'a' has a quota of device model 'H10', which no node has: did you "
                        "mean 'H100'?"));
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
