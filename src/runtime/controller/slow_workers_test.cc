// Workers that slow their job down are named, and nothing is restarted.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "runtime/controller/cluster_fixture.h"

namespace longhaul::runtime::slow_workers_test {
namespace {

using namespace controller_testing;
using std::chrono::seconds;
using testing::ElementsAre;
using testing::HasSubstr;

size_t Looks(const Cluster& cluster) {
  size_t found = 0;
  for (const auto& [node, command] : cluster.sent) found += command.has_sample_workers();
  return found;
}

std::vector<std::string> Messages(const Actions& actions) {
  std::vector<std::string> texts;
  for (const auto& notification : actions.notifications) {
    if (notification.has_message()) texts.push_back(notification.message().text());
  }
  return texts;
}

// The answer of a node to a look: worker `slow` works nearly all the time.
Actions Answer(Cluster& cluster, uint32_t node, int slow) {
  proto::Event event;
  auto* sampled = event.mutable_workers_sampled();
  sampled->set_job_id("gpt-1");
  sampled->set_attempt(cluster.Job().attempt());
  for (uint32_t rank = 2 * node; rank < 2 * node + 2; ++rank) {
    auto* worker = sampled->add_workers();
    worker->set_rank(rank);
    worker->set_period_ns(2'000'000'000);
    worker->set_ran_ns(1'960'000'000);
    const uint32_t works = static_cast<int>(rank) == slow ? 98 : 20;
    worker->add_seen()->set_doing("running");
    worker->mutable_seen(0)->set_times(works);
    worker->add_seen()->set_doing("recvfrom");
    worker->mutable_seen(1)->set_times(100 - works);
  }
  return cluster.Feed(event, true, "node-" + std::to_string(node + 1));
}

Actions AnswerStacks(Cluster& cluster) {
  proto::Event event;
  auto* probed = event.mutable_workers_probed();
  probed->set_job_id("gpt-1");
  probed->set_attempt(cluster.Job().attempt());
  probed->set_with_stacks(true);
  probed->add_workers()->set_rank(2);
  probed->mutable_workers(0)->set_stack("augment (data.py:5)");
  return cluster.Feed(event, true, "node-2");
}

// Steps until the first look, which all nodes are asked for. Returns the last step.
uint64_t StepUntilLook(Cluster& cluster) {
  uint64_t step = 0;
  while (Looks(cluster) == 0 && step < 2'000) cluster.Step(++step);
  return step;
}

Cluster RunningLong() {
  proto::Job job = TwoByTwo();
  job.set_total_steps(100'000);
  Cluster cluster;
  cluster.Join("node-1");
  cluster.Join("node-2");
  cluster.Submit(job);
  cluster.Start();
  return cluster;
}

TEST(ControllerSlowWorkers, TheWorkerForWhichTheOthersWaitIsNamed) {
  Cluster cluster = RunningLong();
  uint64_t step = StepUntilLook(cluster);
  EXPECT_EQ(Looks(cluster), 2u) << "one for each node";
  EXPECT_EQ(cluster.Last("node-1", proto::Command::kSampleWorkers).sample_workers().period_ns(),
            2'000'000'000);
  cluster.Steps(step + 1, step + 5);
  EXPECT_TRUE(Messages(Answer(cluster, 0, 2)).empty());
  EXPECT_TRUE(Messages(Answer(cluster, 1, 2)).empty());
  EXPECT_EQ(Looks(cluster), 4u) << "one look is no proof";
  cluster.Steps(step + 6, step + 10);
  EXPECT_TRUE(Messages(Answer(cluster, 0, 2)).empty());
  EXPECT_TRUE(Messages(Answer(cluster, 1, 2)).empty());
  EXPECT_TRUE(cluster.Last("node-2", proto::Command::kProbeWorkers).probe_workers().with_stacks());
  EXPECT_THAT(Messages(AnswerStacks(cluster)),
              ElementsAre(HasSubstr("worker 2 on node-2 slows the job down")));
  EXPECT_EQ(cluster.Job().attempt(), 1u);
  EXPECT_EQ(cluster.Job().faults_size(), 0);
}

TEST(ControllerSlowWorkers, ANodeThatDoesNotGiveItsStacksIsNamedWithoutThem) {
  Cluster cluster = RunningLong();
  uint64_t step = StepUntilLook(cluster);
  for (int look = 0; look < 2; ++look) {
    cluster.Steps(step + 1, step + 5);
    step += 5;
    Answer(cluster, 0, 2);
    Answer(cluster, 1, 2);
  }
  std::vector<std::string> named;
  while (cluster.controller.NextDeadline().has_value() &&
         *cluster.controller.NextDeadline() <= cluster.now + seconds(6) && named.empty()) {
    cluster.now = *cluster.controller.NextDeadline();
    proto::Event event;
    event.mutable_tick();
    named = Messages(cluster.Feed(event));
  }
  EXPECT_THAT(named, ElementsAre(HasSubstr("worker 2 on node-2 slows the job down")));
}

TEST(ControllerSlowWorkers, EqualWorkersAreNotNamed) {
  Cluster cluster = RunningLong();
  const uint64_t step = StepUntilLook(cluster);
  cluster.Steps(step + 1, step + 5);
  EXPECT_TRUE(Messages(Answer(cluster, 0, -1)).empty());
  EXPECT_TRUE(Messages(Answer(cluster, 1, -1)).empty());
  EXPECT_EQ(Looks(cluster), 2u);
}

TEST(ControllerSlowWorkers, AnAnswerAboutRanksOfAnotherNodeIsNotTaken) {
  Cluster cluster = RunningLong();
  const uint64_t step = StepUntilLook(cluster);
  cluster.Steps(step + 1, step + 5);
  Answer(cluster, 0, 2);
  proto::Event event;
  event.mutable_workers_sampled()->set_job_id("gpt-1");
  event.mutable_workers_sampled()->set_attempt(1);
  event.mutable_workers_sampled()->add_workers()->set_rank(0);
  cluster.Feed(event, true, "node-2");
  EXPECT_EQ(Looks(cluster), 2u) << "the look is not over";
}

TEST(ControllerSlowWorkers, AnAnswerAfterARestartIsNotTaken) {
  Cluster cluster = RunningLong();
  StepUntilLook(cluster);
  cluster.Exit("node-1", 0, 0, 9);
  cluster.TickUntil(cluster.now + seconds(10));
  Answer(cluster, 0, 2);
  Answer(cluster, 1, 2);
  EXPECT_EQ(Looks(cluster), 2u);
}

}  // namespace
}  // namespace longhaul::runtime::slow_workers_test
