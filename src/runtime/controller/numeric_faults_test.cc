// Numeric faults: what each policy does with a loss that is NaN or far above the ones before.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "runtime/controller/cluster_fixture.h"

namespace longhaul::runtime {
namespace {

using namespace controller_testing;
using proto::NumericPolicy;
using std::chrono::milliseconds;
using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

struct Reported {
  std::vector<uint32_t> not_finite;
  double loss = 5.0;
};

// Reports one step of a node, and returns the texts that users receive.
std::vector<std::string> Report(Cluster& cluster, const std::string& node, uint64_t step,
                                const Reported& reported) {
  proto::Event event;
  auto* report = event.mutable_step_reported();
  report->set_job_id("gpt-1");
  report->set_attempt(cluster.Job().attempt());
  report->set_first_step(step);
  report->set_last_step(step);
  report->set_has_loss(node == "node-1");
  report->set_loss(reported.loss);
  for (const uint32_t rank : reported.not_finite) report->add_not_finite_ranks(rank);
  std::vector<std::string> texts;
  for (const auto& notification : cluster.Feed(event, true, node).notifications) {
    if (notification.has_message()) texts.push_back(notification.message().text());
  }
  return texts;
}

Cluster RunningWith(NumericPolicy::Action not_finite, NumericPolicy::Action spike) {
  Cluster cluster;
  cluster.Join("node-1");
  cluster.Join("node-2");
  proto::Job job = TwoByTwo();
  job.mutable_numeric()->set_not_finite(not_finite);
  job.mutable_numeric()->set_spike(spike);
  cluster.Submit(job);
  cluster.Start();
  return cluster;
}

// Worker 3 has a loss that is NaN at step 15. There are snapshots of the steps 10 and 15.
void ReachTheBadStep(Cluster& cluster, uint64_t first = 1) {
  for (uint64_t step = first; step < 15; ++step) {
    if (step == 10) cluster.SealAll(10);
    cluster.Step(step);
  }
  cluster.SealAll(15);
  Report(cluster, "node-1", 15, {});
  Report(cluster, "node-2", 15, {{3}});
}

Cluster RolledBack() {
  Cluster cluster = RunningWith(NumericPolicy::ROLLBACK, NumericPolicy::WARN);
  ReachTheBadStep(cluster);
  cluster.TickUntil(cluster.now + milliseconds(50));
  EXPECT_EQ(cluster.Job().attempt(), 2u);
  cluster.Start();
  return cluster;
}

size_t Commits(const Cluster& cluster, uint64_t step) {
  size_t count = 0;
  for (const auto& [node, command] : cluster.sent) {
    count += command.has_commit_snapshot() && command.commit_snapshot().step() == step ? 1 : 0;
  }
  return count;
}

void Persist(Cluster& cluster, uint64_t step) {
  proto::SnapshotPersisted persisted;
  persisted.set_job_id("gpt-1");
  persisted.set_attempt(cluster.Job().attempt());
  persisted.set_step(step);
  persisted.add_files()->set_name("rank-0");
  cluster.Report("node-1", &proto::Event::mutable_snapshot_persisted, persisted);
}

// The job's state once its newest good snapshot is on disk, or could have been.
proto::JobState StateAtTheEnd(Cluster& cluster) {
  cluster.TickUntil(cluster.now + std::chrono::seconds(70));
  return cluster.Job().state();
}

TEST(NumericFaults, ARollbackGoesBackToAStateFromBeforeTheBadStep) {
  Cluster cluster = RolledBack();
  EXPECT_EQ(cluster.RestoreOf("node-1").step(), 10u);
  EXPECT_EQ(cluster.RestoreOf("node-2").step(), 10u);
  ASSERT_EQ(cluster.Job().faults_size(), 1);
  const proto::Fault fault = cluster.Job().faults(0);
  EXPECT_EQ(fault.class_name(), "numeric");
  EXPECT_EQ(fault.what(),
            "the loss of step 15 is not finite (NaN or infinity), reported by worker 3 on node-2");
  EXPECT_EQ(fault.node(), "node-2");
  EXPECT_EQ(fault.rank(), 3);
  EXPECT_EQ(fault.action(), "roll back and replay, restart from memory at step 10");
}

TEST(NumericFaults, ACleanReplaySuspectsTheHardwareAndTrainingGoesOn) {
  Cluster cluster = RolledBack();
  cluster.Steps(11, 14);
  EXPECT_THAT(Report(cluster, "node-1", 15, {}), IsEmpty()) << "node-2 has not reported it";
  EXPECT_THAT(Report(cluster, "node-2", 15, {}),
              ElementsAre(AllOf(
                  HasSubstr("the replay from step 10 was clean (the losses of the 4 steps before "
                            "it are the same, bit for bit): the hardware is suspected"),
                  HasSubstr("worker 3 on node-2"))));
  EXPECT_THAT(cluster.Job().faults(0).action(), HasSubstr("the hardware is suspected"));
  cluster.Steps(16, 30);
  EXPECT_EQ(cluster.Job().state(), proto::RUNNING);
  EXPECT_EQ(cluster.Job().faults_size(), 1);
}

TEST(NumericFaults, TheSameStepBadAgainStopsTheJobWithItsData) {
  Cluster cluster = RolledBack();
  ReachTheBadStep(cluster, 11);
  cluster.TickUntil(cluster.now + milliseconds(50));
  EXPECT_EQ(cluster.Job().attempt(), 2u);
  EXPECT_EQ(StateAtTheEnd(cluster), proto::FAILED);
  EXPECT_THAT(cluster.Job().reason(),
              AllOf(HasSubstr("again in the replay"), HasSubstr("found in attempt 1 on worker 3"),
                    HasSubstr("the program or its data is the cause, not the hardware"),
                    HasSubstr("step 15 used the samples at the positions 448 to 479")));
  ASSERT_EQ(cluster.Job().faults_size(), 2);
  EXPECT_EQ(cluster.Job().faults(1).class_name(), "numeric");
  EXPECT_THAT(cluster.Job().faults(1).action(), HasSubstr("stop the job"));
}

TEST(NumericFaults, ALossThatDiffersInTheReplayIsWeakerEvidence) {
  Cluster cluster = RolledBack();
  cluster.Steps(11, 13);
  Report(cluster, "node-1", 14, {{}, 5.25});
  Report(cluster, "node-2", 14, {});
  Report(cluster, "node-1", 15, {});
  EXPECT_THAT(Report(cluster, "node-2", 15, {}),
              ElementsAre(HasSubstr("the losses of 1 of the 4 steps before it differ")));
}

TEST(NumericFaults, AnotherFaultDuringTheReplayDoesNotDecideIt) {
  Cluster cluster = RolledBack();
  cluster.Steps(11, 12);
  cluster.Exit("node-1", 0, -1, 9);
  EXPECT_EQ(cluster.Job().attempt(), 3u);
  cluster.Start();
  ReachTheBadStep(cluster, 11);
  EXPECT_EQ(StateAtTheEnd(cluster), proto::FAILED);
  EXPECT_THAT(cluster.Job().reason(), HasSubstr("the program or its data is the cause"));
}

TEST(NumericFaults, WithoutAGoodSnapshotARollbackIsAStop) {
  Cluster cluster = RunningWith(NumericPolicy::ROLLBACK, NumericPolicy::WARN);
  cluster.Steps(1, 13);
  cluster.SealAll(14);
  cluster.Step(14);
  Report(cluster, "node-1", 15, {});
  Report(cluster, "node-2", 15, {{3}});
  cluster.TickUntil(cluster.now + milliseconds(50));
  EXPECT_EQ(StateAtTheEnd(cluster), proto::FAILED);
  EXPECT_THAT(cluster.Job().reason(),
              HasSubstr("it cannot be rolled back, because there is no snapshot of step 13 or an "
                        "earlier one"));
}

TEST(NumericFaults, AStopNamesTheWorkerAndTheSamples) {
  Cluster cluster = RunningWith(NumericPolicy::STOP, NumericPolicy::WARN);
  ReachTheBadStep(cluster);
  cluster.TickUntil(cluster.now + milliseconds(50));
  EXPECT_EQ(cluster.Job().attempt(), 1u);
  EXPECT_EQ(StateAtTheEnd(cluster), proto::FAILED);
  EXPECT_THAT(cluster.Job().reason(),
              AllOf(HasSubstr("worker 3 on node-2: numeric.not_finite is stop"),
                    HasSubstr("the samples at the positions 448 to 479")));
}

TEST(NumericFaults, TheEarliestBadStepIsTheOneThatCounts) {
  Cluster cluster = RunningWith(NumericPolicy::ROLLBACK, NumericPolicy::WARN);
  cluster.Steps(1, 9);
  cluster.SealAll(10);
  cluster.Steps(10, 13);
  Report(cluster, "node-1", 14, {});
  Report(cluster, "node-1", 15, {{0, 1}});
  EXPECT_EQ(cluster.Job().faults(0).node(), "node-1");
  Report(cluster, "node-2", 14, {{3}});
  EXPECT_EQ(cluster.Job().faults(0).node(), "node-2");
  EXPECT_THAT(cluster.Job().faults(0).what(), HasSubstr("the loss of step 14 is not finite"));
  EXPECT_EQ(cluster.Job().attempt(), 1u) << "the decision waits for such reports";
}

TEST(NumericFaults, AWorkerThatEndsBecauseOfItsLossIsNotTheCause) {
  Cluster cluster = RunningWith(NumericPolicy::ROLLBACK, NumericPolicy::WARN);
  ReachTheBadStep(cluster);
  cluster.Exit("node-2", 3, 1, 0);
  cluster.TickUntil(cluster.now + milliseconds(50));
  ASSERT_EQ(cluster.Job().faults_size(), 1);
  EXPECT_EQ(cluster.Job().faults(0).class_name(), "numeric");
  EXPECT_EQ(cluster.Job().attempt(), 2u);
}

TEST(NumericFaults, ACheckpointIsCommittedOnceTheNextStepWasGood) {
  Cluster cluster = RunningWith(NumericPolicy::ROLLBACK, NumericPolicy::WARN);
  cluster.Steps(1, 9);
  cluster.SealAll(10);
  cluster.Step(10);
  Persist(cluster, 10);
  EXPECT_EQ(Commits(cluster, 10), 0u);
  Report(cluster, "node-1", 11, {});
  EXPECT_EQ(Commits(cluster, 10), 0u) << "node-2 may still report a bad loss";
  Report(cluster, "node-2", 11, {});
  EXPECT_EQ(Commits(cluster, 10), 1u);
}

TEST(NumericFaults, ABadStateNeverBecomesACheckpoint) {
  for (const auto action : {NumericPolicy::STOP, NumericPolicy::ROLLBACK}) {
    Cluster cluster = RunningWith(action, NumericPolicy::WARN);
    cluster.Steps(1, 13);
    cluster.SealAll(14);
    cluster.Step(14);
    Persist(cluster, 14);
    Report(cluster, "node-1", 15, {});
    Report(cluster, "node-2", 15, {{3}});
    Persist(cluster, 14);
    cluster.TickUntil(cluster.now + milliseconds(50));
    Persist(cluster, 14);
    EXPECT_EQ(Commits(cluster, 14), 0u) << "the loss that was computed with it was NaN";
  }
}

// Found by the simulation: the copies of the bad state became known after the decision.
TEST(NumericFaults, ACopyOfABadStateThatArrivesLateIsNotRestored) {
  Cluster cluster;
  cluster.peer_port = 9;
  cluster.Join("node-1");
  cluster.Join("node-2");
  proto::Job job = TwoByTwo();
  job.mutable_snapshot()->set_replicated(false);
  job.mutable_numeric()->set_not_finite(NumericPolicy::ROLLBACK);
  cluster.Submit(job);
  cluster.Start();
  ReachTheBadStep(cluster);
  cluster.Copy("node-1", 15, "node-2");
  cluster.Copy("node-2", 15, "node-1");
  cluster.Disconnect("node-1");
  cluster.now += milliseconds(50);
  cluster.TickAt(cluster.now);
  cluster.Copy("node-2", 15, "node-1");
  cluster.Join("node-1", 1);
  cluster.TickUntil(cluster.now + milliseconds(50));
  ASSERT_EQ(cluster.Job().attempt(), 2u);
  cluster.Start();
  EXPECT_EQ(cluster.RestoreOf("node-2").step(), 10u);
}

TEST(NumericFaults, WithTheDefaultPolicyACheckpointDoesNotWait) {
  Cluster cluster = RunningWith(NumericPolicy::WARN, NumericPolicy::WARN);
  cluster.Steps(1, 9);
  cluster.SealAll(10);
  cluster.Step(10);
  Persist(cluster, 10);
  EXPECT_EQ(Commits(cluster, 10), 1u);
}

TEST(NumericFaults, TheLastCheckpointOfAJobThatEndsDoesNotWait) {
  Cluster cluster = RunningWith(NumericPolicy::ROLLBACK, NumericPolicy::STOP);
  cluster.Steps(1, 99);
  cluster.SealAll(100);
  cluster.Step(100);
  Persist(cluster, 100);
  EXPECT_EQ(Commits(cluster, 100), 0u);
  for (uint32_t rank = 0; rank < 4; ++rank) {
    cluster.Exit(rank < 2 ? "node-1" : "node-2", rank, 0, 0);
  }
  EXPECT_EQ(Commits(cluster, 100), 1u);
}

// Steps from `first` on with the same loss on both nodes.
std::vector<std::string> StepsOf(Cluster& cluster, uint64_t first, uint64_t last, double loss) {
  std::vector<std::string> texts;
  for (uint64_t step = first; step <= last && cluster.Job().state() == proto::RUNNING; ++step) {
    cluster.now += milliseconds(100);
    for (const std::string& text : Report(cluster, "node-1", step, {{}, loss})) {
      texts.push_back(text);
    }
    if (cluster.Job().state() == proto::RUNNING) Report(cluster, "node-2", step, {});
  }
  return texts;
}

TEST(NumericFaults, ASpikeIsWarnedOfOnce) {
  Cluster cluster = RunningWith(NumericPolicy::WARN, NumericPolicy::WARN);
  EXPECT_THAT(StepsOf(cluster, 1, 30, 2.0), IsEmpty());
  EXPECT_THAT(StepsOf(cluster, 31, 40, 9.0),
              ElementsAre("the loss of steps 31 to 33 is 9 at the end, above the limit of 4 (the "
                          "median of the losses before is 2); training continues"));
  Cluster ignoring = RunningWith(NumericPolicy::WARN, NumericPolicy::IGNORE);
  StepsOf(ignoring, 1, 30, 2.0);
  EXPECT_THAT(StepsOf(ignoring, 31, 40, 9.0), IsEmpty());
}

TEST(NumericFaults, ASpikeIsReplayedAsWell) {
  Cluster cluster = RunningWith(NumericPolicy::WARN, NumericPolicy::ROLLBACK);
  StepsOf(cluster, 1, 24, 2.0);
  cluster.SealAll(25);
  StepsOf(cluster, 25, 30, 2.0);
  cluster.SealAll(32);
  StepsOf(cluster, 31, 40, 9.0);
  cluster.TickUntil(cluster.now + milliseconds(50));
  EXPECT_EQ(cluster.Job().attempt(), 2u);
  cluster.Start();
  EXPECT_EQ(cluster.RestoreOf("node-1").step(), 25u);
  StepsOf(cluster, 26, 30, 2.0);
  StepsOf(cluster, 31, 40, 9.0);
  EXPECT_EQ(StateAtTheEnd(cluster), proto::FAILED);
  EXPECT_THAT(cluster.Job().reason(), HasSubstr("the program or its data is the cause"));
}

TEST(NumericFaults, TheNodesAreCheckedAtTheNextRestartAfterACleanReplay) {
  Cluster cluster = RolledBack();
  cluster.Steps(11, 20);
  EXPECT_THAT(cluster.checks, IsEmpty()) << "training goes on";
  cluster.Exit("node-1", 0, -1, 9);
  for (const char* node : {"node-1", "node-2"}) {
    proto::AttemptClosed closed;
    closed.set_job_id("gpt-1");
    closed.set_attempt(2);
    cluster.Report(node, &proto::Event::mutable_attempt_closed, closed);
  }
  EXPECT_EQ(cluster.Job().attempt(), 2u);
  ASSERT_EQ(cluster.checks.size(), 1u);
  EXPECT_EQ(cluster.checks[0].nodes.size(), 2u);
}

TEST(NumericFaults, FaultsThatNeverRepeatAtTheirStepEndTheJob) {
  Cluster cluster = RolledBack();
  for (uint64_t bad = 17; bad < 23; bad += 2) {
    cluster.Steps(11, bad - 1);
    Report(cluster, "node-1", bad, {});
    Report(cluster, "node-2", bad, {{2}});
    cluster.TickUntil(cluster.now + milliseconds(50));
    for (const char* node : {"node-1", "node-2"}) {
      proto::AttemptClosed closed;
      closed.set_job_id("gpt-1");
      closed.set_attempt(cluster.Job().attempt());
      cluster.Report(node, &proto::Event::mutable_attempt_closed, closed);
    }
    if (!cluster.checks.empty() && cluster.Job().reason() == "its nodes are checked") {
      proto::Event result;
      result.mutable_nodes_checked()->set_job_id("gpt-1");
      result.mutable_nodes_checked()->set_fault(static_cast<uint32_t>(cluster.Job().faults_size()));
      cluster.Feed(result);
    }
    if (bad < 21) cluster.Start();
  }
  EXPECT_EQ(StateAtTheEnd(cluster), proto::FAILED);
  EXPECT_EQ(cluster.Job().faults_size(), 4);
  EXPECT_THAT(cluster.Job().reason(), HasSubstr("the cause is not decided"));
}

}  // namespace
}  // namespace longhaul::runtime
