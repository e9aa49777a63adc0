// When no step comes: who is stopped, who waits, who is hung.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "runtime/controller/cluster_fixture.h"

namespace longhaul::runtime::hangs_test {
namespace {

using namespace controller_testing;
using std::chrono::seconds;

// A probe of attempt 1 has found worker 0 stopped, and continued it.
void ContinueStopped(Cluster& cluster) {
  proto::WorkersProbed probed;
  probed.set_job_id("gpt-1");
  probed.set_attempt(1);
  auto* worker = probed.add_workers();
  worker->set_rank(0);
  worker->set_process_state("T");
  worker->set_resumed(true);
  cluster.Report("node-1", &proto::Event::mutable_workers_probed, probed);
}

TEST(ControllerHangs, ContinuesAStoppedWorkerInsteadOfKillingIt) {
  Cluster cluster = Running();
  cluster.Steps(1, 5);
  cluster.TickUntil(cluster.now + seconds(11));
  EXPECT_TRUE(
      cluster.Last("node-1", proto::Command::kProbeWorkers).probe_workers().resume_stopped());
  ContinueStopped(cluster);
  cluster.Steps(6, 7);
  EXPECT_EQ(cluster.Job().attempt(), 1u);
  ASSERT_EQ(cluster.Job().faults_size(), 1);
  EXPECT_EQ(cluster.Job().faults(0).class_name(), "hang");
  EXPECT_GT(cluster.Job().faults(0).new_step_at_ns(), 0);
}

// The step after a stop of 12 s is no slow step: the next hang is noticed as soon as before.
TEST(ControllerHangs, AStopThatWasEndedIsNoSlowStep) {
  Cluster cluster = Running();
  cluster.Steps(1, 5);
  cluster.TickUntil(cluster.now + seconds(12));
  ContinueStopped(cluster);
  cluster.Steps(6, 7);
  cluster.TickUntil(cluster.now + seconds(25));
  EXPECT_EQ(cluster.Job().attempt(), 2u);
}

TEST(ControllerHangs, RestartsAHangThatProbingDoesNotHelp) {
  Cluster cluster = Running();
  cluster.Steps(1, 5);
  cluster.TickUntil(cluster.now + seconds(25));
  EXPECT_EQ(cluster.Job().attempt(), 2u);
  EXPECT_EQ(cluster.Job().faults(0).class_name(), "hang");
}

// A command of 100 steps that reports them.
Cluster RunningCommand() {
  proto::Job job = TwoByTwo();
  job.mutable_workload()->set_built_in(false);
  job.mutable_workload()->add_command("train");
  Cluster cluster;
  cluster.Join("node-1");
  cluster.Join("node-2");
  cluster.Submit(job);
  cluster.Start();
  return cluster;
}

size_t Sent(const Cluster& cluster, bool with_stacks) {
  size_t found = 0;
  for (const auto& [node, command] : cluster.sent) {
    found += command.has_probe_workers() && command.probe_workers().with_stacks() == with_stacks;
  }
  return found;
}

// Answers the second probe; worker 2 differs. Returns the warnings that name a worker.
std::vector<std::string> AnswerStacks(Cluster& cluster, int64_t idle_ns) {
  std::vector<std::string> named;
  for (uint32_t node = 0; node < 2; ++node) {
    proto::Event event;
    auto* probed = event.mutable_workers_probed();
    probed->set_job_id("gpt-1");
    probed->set_attempt(1);
    probed->set_with_stacks(true);
    for (uint32_t rank = 2 * node; rank < 2 * node + 2; ++rank) {
      auto* worker = probed->add_workers();
      worker->set_rank(rank);
      worker->set_process_state("S");
      worker->set_idle_ns(idle_ns);
      worker->set_stack(rank == 2 ? "read_batch (train.py:7)" : "all_reduce (train.py:9)");
    }
    for (const auto& notification :
         cluster.Feed(event, true, "node-" + std::to_string(node + 1)).notifications) {
      if (notification.has_message()) named.push_back(notification.message().text());
    }
  }
  return named;
}

TEST(ControllerHangs, TheStacksOfTheBuiltInTrainerComeBeforeItsRestart) {
  Cluster cluster = Running();
  cluster.Steps(1, 5);
  while (Sent(cluster, true) == 0 && cluster.Job().attempt() == 1) {
    cluster.TickAt(*cluster.controller.NextDeadline());
  }
  EXPECT_EQ(Sent(cluster, true), 2u);
  ASSERT_EQ(cluster.Job().attempt(), 1u);
  AnswerStacks(cluster, 0);
  EXPECT_EQ(cluster.Job().attempt(), 2u);
  EXPECT_THAT(cluster.Job().faults(0).what(), testing::HasSubstr("worker 2"));
}

TEST(ControllerHangs, TheWorkerThatStandsStillIsNamedLongBeforeTheRestart) {
  Cluster cluster = RunningCommand();
  cluster.Steps(1, 5);
  cluster.TickUntil(cluster.now + seconds(5));
  EXPECT_EQ(Sent(cluster, false), 0u);
  cluster.TickUntil(cluster.now + seconds(1));
  EXPECT_EQ(Sent(cluster, false), 2u) << "one for each node";
  cluster.TickUntil(cluster.now + seconds(2));
  EXPECT_EQ(Sent(cluster, true), 2u);
  const std::vector<std::string> named = AnswerStacks(cluster, 2'000'000'000);
  ASSERT_EQ(named.size(), 1u);
  EXPECT_THAT(named[0], testing::HasSubstr("no step for 8 s and no activity of any worker"));
  EXPECT_THAT(named[0], testing::HasSubstr("worker 2 differs from the others"));
  EXPECT_THAT(named[0], testing::HasSubstr("restarted if this lasts for 2 min"));
  cluster.TickUntil(cluster.now + seconds(60));
  EXPECT_EQ(Sent(cluster, true), 2u) << "it is named once";
  EXPECT_EQ(cluster.Job().attempt(), 1u);
  EXPECT_EQ(cluster.Job().faults_size(), 0);
}

TEST(ControllerHangs, ActiveWorkersAreNoHangAndAreLookedAtAgain) {
  Cluster cluster = RunningCommand();
  cluster.Steps(1, 5);
  cluster.TickUntil(cluster.now + seconds(8));
  EXPECT_TRUE(AnswerStacks(cluster, 0).empty());
  cluster.TickUntil(cluster.now + seconds(8));
  EXPECT_EQ(AnswerStacks(cluster, 2'000'000'000).size(), 1u);
}

TEST(ControllerHangs, AStepEndsTheSuspicion) {
  Cluster cluster = RunningCommand();
  cluster.Steps(1, 5);
  cluster.TickUntil(cluster.now + seconds(8));
  cluster.Step(6);
  EXPECT_TRUE(AnswerStacks(cluster, 2'000'000'000).empty());
}

TEST(ControllerHangs, ALossThatIsNotFiniteIsReportedWithItsWorker) {
  Cluster cluster = RunningCommand();
  cluster.Steps(1, 2);
  proto::Event event;
  auto* report = event.mutable_step_reported();
  report->set_job_id("gpt-1");
  report->set_attempt(1);
  report->set_first_step(3);
  report->set_last_step(3);
  report->add_not_finite_ranks(3);
  std::vector<std::string> texts;
  for (const auto& notification : cluster.Feed(event, true, "node-2").notifications) {
    if (notification.has_message()) texts.push_back(notification.message().text());
  }
  EXPECT_THAT(texts, testing::ElementsAre("the loss of step 3 is not finite (NaN or infinity), "
                                          "reported by worker 3; training continues"));
}

// The restart after the kill of worker 0 ends the stop of worker 3 too.
TEST(ControllerHangs, AWorkerThatWasStoppedBesideAnotherFaultIsNamed) {
  Cluster cluster = RunningCommand();
  cluster.Steps(1, 5);
  cluster.Exit("node-1", 0, -1, 9);
  proto::Event event;
  auto* exited = event.mutable_worker_exited();
  exited->set_job_id("gpt-1");
  exited->set_attempt(1);
  exited->set_rank(3);
  exited->set_exit_code(-1);
  exited->set_signal(9);
  exited->set_asked(true);
  exited->set_was_stopped(true);
  std::vector<std::string> texts;
  for (const auto& notification : cluster.Feed(event, true, "node-2").notifications) {
    if (notification.has_message()) texts.push_back(notification.message().text());
  }
  EXPECT_THAT(texts, testing::ElementsAre(
                         "worker 3 on node-2 was stopped (state T) when the workers were ended"));
  ASSERT_EQ(cluster.Job().faults_size(), 1);
  EXPECT_EQ(cluster.Job().faults(0).rank(), 0) << "the first fault is still the cause";
}

TEST(ControllerHangs, AnUnknownUsualStepIsNotSuspected) {
  Cluster cluster = RunningCommand();
  cluster.Steps(1, 2);
  cluster.TickUntil(cluster.now + seconds(30));
  EXPECT_EQ(Sent(cluster, true), 0u);
}

// Progress is measured by the first worker's steps, and an export at the end takes none.
TEST(ControllerHangs, WhoGoesOnWhenAnotherHasEndedWellIsNotHung) {
  Cluster cluster = Running();
  cluster.Steps(1, 5);
  cluster.Exit("node-1", 0, 0, 0);
  cluster.TickUntil(cluster.now + seconds(300));
  EXPECT_EQ(cluster.Job().attempt(), 1u);
  EXPECT_EQ(cluster.Job().faults_size(), 0);
  cluster.TickUntil(cluster.now + seconds(1000));
  EXPECT_GE(cluster.Job().attempt(), 2u) << "not forever";
  EXPECT_EQ(cluster.Job().faults(0).class_name(), "hang");
}

// Answers the probe with stacks for worker 1, the only one of node-1 that has not ended.
std::vector<std::string> AnswerOfTheLast(Cluster& cluster, int64_t idle_ns) {
  proto::Event event;
  auto* probed = event.mutable_workers_probed();
  probed->set_job_id("gpt-1");
  probed->set_attempt(1);
  probed->set_with_stacks(true);
  auto* worker = probed->add_workers();
  worker->set_rank(1);
  worker->set_process_state("S");
  worker->set_idle_ns(idle_ns);
  worker->set_stack("destroy_process_group (train.py:9)");
  std::vector<std::string> texts;
  for (const auto& notification : cluster.Feed(event, true, "node-1").notifications) {
    if (notification.has_message()) texts.push_back(notification.message().text());
  }
  return texts;
}

// All workers but worker 1 end.
void EndTheOthers(Cluster& cluster) {
  cluster.Steps(1, 5);
  cluster.Exit("node-2", 2, 0, 0);
  cluster.Exit("node-2", 3, 0, 0);
  cluster.Exit("node-1", 0, 0, 0);
}

TEST(ControllerHangs, AWorkerThatDoesNotEndIsNamedOnce) {
  Cluster cluster = RunningCommand();
  EndTheOthers(cluster);
  cluster.TickUntil(cluster.now + seconds(29));
  EXPECT_EQ(Sent(cluster, false), 0u);
  cluster.TickUntil(cluster.now + seconds(3));
  EXPECT_EQ(Sent(cluster, true), 1u) << "not to the node whose workers have ended";
  const std::vector<std::string> named = AnswerOfTheLast(cluster, 2'000'000'000);
  ASSERT_EQ(named.size(), 1u);
  EXPECT_THAT(named[0], testing::StartsWith("worker 1 on node-1 has not ended, 32 s after worker 0 "
                                            "ended with success; no activity"));
  EXPECT_THAT(named[0], testing::HasSubstr("destroy_process_group (train.py:9)"));
  EXPECT_THAT(named[0], testing::HasSubstr("all workers are restarted if none is active for 10 m"));
  cluster.TickUntil(cluster.now + seconds(90));
  EXPECT_EQ(Sent(cluster, true), 1u);
  EXPECT_EQ(cluster.Job().attempt(), 1u);
}

TEST(ControllerHangs, AnActiveWorkerThatHasNotEndedIsLookedAtAgain) {
  Cluster cluster = RunningCommand();
  EndTheOthers(cluster);
  cluster.TickUntil(cluster.now + seconds(32));
  EXPECT_TRUE(AnswerOfTheLast(cluster, 0).empty());
  cluster.TickUntil(cluster.now + seconds(32));
  EXPECT_EQ(AnswerOfTheLast(cluster, 2'000'000'000).size(), 1u);
}

TEST(ControllerHangs, AWorkerThatEndsMeanwhileIsNotNamed) {
  Cluster cluster = RunningCommand();
  EndTheOthers(cluster);
  cluster.TickUntil(cluster.now + seconds(32));
  cluster.Exit("node-1", 1, 0, 0);
  for (const std::string& text : AnswerOfTheLast(cluster, 2'000'000'000)) {
    EXPECT_THAT(text, testing::Not(testing::HasSubstr("has not ended")));
  }
}

// Says every 3 s that worker 3 waits, from `begin` on for so long.
void WaitForSlot(Cluster& cluster, Duration begin, Duration end) {
  for (Duration waited = begin; waited <= end; waited += seconds(3)) {
    proto::WorkerWaits waits;
    waits.set_job_id("gpt-1");
    waits.set_attempt(1);
    waits.set_rank(3);
    waits.set_step(6);
    waits.set_waited_ns(waited.count());
    waits.set_holders("step 4: process 7 writes it to disk");
    cluster.Report("node-2", &proto::Event::mutable_worker_waits, waits);
    cluster.TickUntil(cluster.now + seconds(3));
  }
}

TEST(ControllerHangs, AWorkerThatSaysThatItWaitsForASlotIsNotHung) {
  Cluster cluster = Running();
  cluster.Steps(1, 5);
  WaitForSlot(cluster, seconds(3), seconds(300));
  EXPECT_EQ(cluster.Job().attempt(), 1u);
  cluster.Steps(6, 7);
  EXPECT_EQ(cluster.Job().faults_size(), 0);
}

TEST(ControllerHangs, AnEndlessWaitForASlotIsAHangThatNamesWhoIsWaitedFor) {
  Cluster cluster = Running();
  cluster.Steps(1, 5);
  WaitForSlot(cluster, seconds(3), seconds(640));
  EXPECT_EQ(cluster.Job().attempt(), 2u);
  ASSERT_EQ(cluster.Job().faults_size(), 1);
  EXPECT_EQ(cluster.Job().faults(0).class_name(), "hang");
  EXPECT_THAT(cluster.Job().faults(0).what(),
              testing::HasSubstr("worker 3 waits for a slot to take a snapshot of step 6 (step 4: "
                                 "process 7 writes it to disk)"));
}

}  // namespace
}  // namespace longhaul::runtime::hangs_test
