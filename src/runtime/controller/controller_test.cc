#include "runtime/controller/controller.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <csignal>
#include <map>
#include <string>
#include <vector>

#include "runtime/controller/cluster_fixture.h"

namespace longhaul::runtime {
namespace {

using namespace controller_testing;
using std::chrono::milliseconds;
using std::chrono::seconds;

TEST(Controller, WaitsForEnoughNodesAndSaysSo) {
  Cluster cluster;
  cluster.Join("node-1");
  cluster.Submit(TwoByTwo());
  EXPECT_EQ(cluster.Job().state(), proto::QUEUED);
  EXPECT_THAT(cluster.Job().reason(), testing::HasSubstr("2"));
  cluster.Join("node-2");
  EXPECT_EQ(cluster.Job().state(), proto::STARTING);
  EXPECT_EQ(cluster.Job().attempt(), 1u);
  EXPECT_TRUE(cluster.Last("node-1", proto::Command::kOpenStore).has_open_store());
}

TEST(Controller, StartsBothNodesOnceTheStoreIsOpen) {
  Cluster cluster = Running();
  const auto start = cluster.Last("node-2", proto::Command::kStartWorkers).start_workers();
  EXPECT_EQ(start.node_rank(), 1u);
  EXPECT_EQ(start.first_rank(), 2u);
  EXPECT_EQ(start.world(), 4u);
  EXPECT_EQ(start.master_port(), 4000u);
  EXPECT_EQ(start.lease().first_step(), 1u);
  EXPECT_EQ(start.lease().end_step(), 101u);
  EXPECT_EQ(start.restore().tier(), proto::Restore::TIER_NONE);
  EXPECT_EQ(cluster.Job().state(), proto::RUNNING);
}

TEST(Controller, IgnoresAPhaseThatIsNone) {
  Cluster cluster = Running();
  for (const int phase : {7, 1'000'000, -1}) {
    proto::PhaseEntered entered;
    entered.set_job_id("gpt-1");
    entered.set_attempt(cluster.Job().attempt());
    entered.set_phase(static_cast<proto::PhaseEntered::Phase>(phase));
    cluster.Report("node-1", &proto::Event::mutable_phase_entered, entered);
  }
  cluster.Steps(1, 10);
  EXPECT_EQ(cluster.Job().state(), proto::RUNNING);
  EXPECT_EQ(cluster.Job().step(), 10u);
}

// Its connections close while it still ends, so another one may end before it.
TEST(Controller, AnErrorThatAKilledWorkerStatedBeforeTheFirstExitIsTheCause) {
  Cluster cluster = Running();
  cluster.Steps(1, 3);
  const Instant error_at = cluster.now;
  cluster.now += std::chrono::milliseconds(5);
  cluster.Exit("node-2", 2, 1, 0);
  EXPECT_EQ(cluster.Job().faults(0).rank(), 2);
  cluster.now += std::chrono::milliseconds(5);
  proto::WorkerExited killed;
  killed.set_job_id("gpt-1");
  killed.set_attempt(1);
  killed.set_rank(0);
  killed.set_exit_code(-1);
  killed.set_signal(9);
  killed.set_asked(true);
  cluster.Report("node-1", &proto::Event::mutable_worker_exited, killed);
  EXPECT_EQ(cluster.Job().faults(0).rank(), 2) << "one that was only killed is no cause";
  killed.set_rank(1);
  killed.set_message("ValueError: bad");
  killed.set_error_at_ns(ToNanoseconds(error_at));
  cluster.Report("node-1", &proto::Event::mutable_worker_exited, killed);
  ASSERT_EQ(cluster.Job().faults_size(), 1);
  EXPECT_EQ(cluster.Job().faults(0).rank(), 1);
  EXPECT_EQ(cluster.Job().faults(0).node(), "node-1");
  EXPECT_EQ(cluster.Job().faults(0).what(), "worker 1 failed: ValueError: bad");
  EXPECT_EQ(cluster.Job().faults(0).class_name(), "error");
}

TEST(Controller, RestartsAKilledWorkersGangFromMemory) {
  Cluster cluster = Running();
  cluster.Steps(1, 10);
  cluster.SealAll(10);
  cluster.Steps(11, 13);
  cluster.Exit("node-1", 1, -1, SIGKILL);
  EXPECT_EQ(cluster.Job().state(), proto::RECOVERING);
  EXPECT_EQ(cluster.Job().attempt(), 2u);
  cluster.Start();
  const auto start = cluster.Last("node-2", proto::Command::kStartWorkers).start_workers();
  EXPECT_EQ(start.attempt(), 2u);
  EXPECT_EQ(start.restore().tier(), proto::Restore::TIER_MEMORY);
  EXPECT_EQ(start.restore().step(), 10u);
  EXPECT_EQ(start.lease().first_step(), 11u);
  cluster.Steps(11, 14);
  const proto::JobStatus job = cluster.Job();
  ASSERT_EQ(job.faults_size(), 1);
  const proto::Fault& fault = job.faults(0);
  EXPECT_EQ(fault.class_name(), "process");
  EXPECT_EQ(fault.rank(), 1);
  EXPECT_EQ(fault.lost_steps(), 3u);
  EXPECT_GT(fault.first_step_at_ns(), fault.stepping_at_ns());
  EXPECT_GT(fault.new_step_at_ns(), fault.first_step_at_ns());
  // Three steps of 100 ms on four ranks were thrown away.
  for (const auto& entry : job.ledger().categories()) {
    if (entry.category() != proto::LOST_WORK) continue;
    EXPECT_NEAR(entry.rank_seconds(), 1.2, 1e-9);
  }
}

// The loss may be noticed only when the other workers have done all steps.
TEST(Controller, CallsAFaultAfterTheLastStepRecovered) {
  Cluster cluster = Running();
  constexpr uint64_t kLast = 100;  // the job has no more
  cluster.Steps(1, kLast - 2);
  cluster.SealAll(kLast - 2);
  cluster.Steps(kLast - 1, kLast);
  cluster.Exit("node-1", 1, -1, SIGKILL);
  cluster.Start();
  cluster.Steps(kLast - 1, kLast - 1);
  EXPECT_EQ(cluster.Job().faults(0).new_step_at_ns(), 0);
  cluster.Steps(kLast, kLast);
  EXPECT_GT(cluster.Job().faults(0).new_step_at_ns(), 0);
  // The newest snapshot is the end itself: nothing is left to do again.
  cluster.SealAll(kLast);
  cluster.Exit("node-1", 1, -1, SIGKILL);
  cluster.Start();
  EXPECT_EQ(cluster.Job().faults(1).new_step_at_ns(), 0);
  for (int rank = 0; rank < 4; ++rank) cluster.Exit(rank < 2 ? "node-1" : "node-2", rank, 0, 0);
  EXPECT_GT(cluster.Job().faults(1).new_step_at_ns(), 0);
}

TEST(Controller, FallsBackToDiskWhenANodeIsLost) {
  Cluster cluster = Running();
  cluster.Steps(1, 10);
  cluster.SealAll(10);
  cluster.Save(10);
  cluster.Steps(11, 12);
  cluster.SealAll(12);
  cluster.Disconnect("node-2");
  cluster.TickUntil(cluster.now + seconds(2));
  EXPECT_EQ(cluster.Job().state(), proto::RECOVERING);
  EXPECT_THAT(cluster.Job().reason(), testing::HasSubstr("waiting for a node"));
  cluster.Join("node-2", 2);
  cluster.Start();
  const auto lost = cluster.Last("node-2", proto::Command::kStartWorkers).start_workers();
  const auto kept = cluster.Last("node-1", proto::Command::kStartWorkers).start_workers();
  EXPECT_EQ(lost.restore().step(), 10u);
  EXPECT_EQ(lost.restore().tier(), proto::Restore::TIER_DISK);
  EXPECT_EQ(lost.restore().saved_attempt(), 1u);
  EXPECT_EQ(kept.restore().step(), 10u);
  EXPECT_EQ(kept.restore().tier(), proto::Restore::TIER_MEMORY);
  EXPECT_EQ(cluster.Job().faults(0).class_name(), "node");
}

TEST(Controller, AnAgentBackWithinItsGraceDisturbsNobody) {
  Cluster cluster = Running();
  cluster.Steps(1, 3);
  cluster.Disconnect("node-2");
  cluster.now += milliseconds(500);
  cluster.Join("node-2", 1);
  cluster.TickUntil(cluster.now + seconds(5));
  cluster.Steps(4, 5);
  EXPECT_EQ(cluster.Job().attempt(), 1u);
  EXPECT_EQ(cluster.Job().faults_size(), 0);
  EXPECT_EQ(cluster.Job().step(), 5u);
}

TEST(Controller, APeersExitIsNotTakenForTheCauseOfANodesDeath) {
  Cluster cluster = Running();
  cluster.Steps(1, 3);
  cluster.Exit("node-1", 0, 1, 0);
  EXPECT_EQ(cluster.Job().attempt(), 1u) << "decides only after the evidence window";
  cluster.Disconnect("node-2");
  cluster.Join("node-2", 2);
  ASSERT_EQ(cluster.Job().faults_size(), 1);
  EXPECT_EQ(cluster.Job().faults(0).class_name(), "node");
  EXPECT_EQ(cluster.Job().faults(0).node(), "node-2");
  EXPECT_EQ(cluster.Job().attempt(), 2u);
}

TEST(Controller, ALaterFoundCauseReplacesItsConsequence) {
  Cluster cluster = Running();
  cluster.Exit("node-2", 2, 1, 0);
  cluster.TickUntil(cluster.now + milliseconds(100));
  EXPECT_EQ(cluster.Job().faults(0).rank(), 2);
  cluster.Exit("node-1", 1, -1, SIGKILL, 1);
  EXPECT_EQ(cluster.Job().faults(0).rank(), 1);
  EXPECT_EQ(cluster.Job().faults_size(), 1);
}

TEST(Controller, StopsAJobThatFailsAgainAndAgainWithoutAStep) {
  Cluster cluster = Running();
  for (int i = 0; i < 10 && !IsTerminal(cluster.Job().state()); ++i) {
    cluster.Exit("node-1", 0, 1, 0);
    cluster.TickUntil(cluster.now + milliseconds(100));
    if (!IsTerminal(cluster.Job().state())) cluster.Start();
  }
  EXPECT_EQ(cluster.Job().state(), proto::FAILED);
  EXPECT_THAT(cluster.Job().reason(), testing::HasSubstr("worker 0 exited with code 1"));
}

TEST(Controller, TellsAllNodesTheVersionOfPyTorchThatTheFirstOneFound) {
  const std::pair<std::string, std::string> kRows[] = {
      {"2.1.0", "2.1.0"}, {"", ""}, {"2.1 and more\n", ""}, {std::string(1000, '2'), ""}};
  for (const auto& [found, want] : kRows) {
    proto::Job command = TwoByTwo();
    command.mutable_workload()->set_built_in(false);
    command.mutable_workload()->add_command("python3");
    Cluster cluster;
    cluster.Join("node-1");
    cluster.Join("node-2");
    cluster.Submit(command);
    EXPECT_EQ(cluster.Last("node-1", proto::Command::kOpenStore).open_store().workload().command(0),
              "python3");
    proto::StoreOpened opened;
    opened.set_job_id("gpt-1");
    opened.set_attempt(cluster.Job().attempt());
    opened.set_port(4000);
    opened.set_torch_version(found);
    cluster.Report("node-1", &proto::Event::mutable_store_opened, opened);
    const proto::Command start = cluster.Last("node-2", proto::Command::kStartWorkers);
    EXPECT_EQ(start.start_workers().job().workload().torch_version(), want);
  }
}

// It never reports a step; to have run for long is all that speaks for it.
TEST(Controller, CountsACommandThatLastedAsProgress) {
  proto::Job command = TwoByTwo();
  command.mutable_workload()->set_built_in(false);
  Cluster cluster;
  cluster.Join("node-1");
  cluster.Join("node-2");
  cluster.Submit(command);
  cluster.Start();
  for (int i = 0; i < 8; ++i) {
    cluster.TickUntil(cluster.now + std::chrono::minutes(11));
    cluster.Exit("node-1", 0, 1, 0);
    cluster.TickUntil(cluster.now + milliseconds(100));
    cluster.Start();
  }
  EXPECT_EQ(cluster.Job().restarts(), 8u);
  EXPECT_EQ(cluster.Job().faults(7).action(), "restart all workers");
  for (int i = 0; i < 5 && !IsTerminal(cluster.Job().state()); ++i) {
    cluster.Exit("node-1", 0, 1, 0);
    cluster.TickUntil(cluster.now + milliseconds(100));
    if (!IsTerminal(cluster.Job().state())) cluster.Start();
  }
  EXPECT_EQ(cluster.Job().state(), proto::FAILED);
}

TEST(Controller, SucceedsOnceTheLastCheckpointIsOnDisk) {
  Cluster cluster = Running();
  cluster.Steps(1, 100);
  cluster.SealAll(100);
  for (uint32_t rank = 0; rank < 4; ++rank) {
    cluster.Exit(rank < 2 ? "node-1" : "node-2", rank, 0, 0);
  }
  EXPECT_FALSE(IsTerminal(cluster.Job().state()));
  cluster.Save(100);
  EXPECT_EQ(cluster.Job().state(), proto::SUCCEEDED);
  EXPECT_TRUE(cluster.Last("node-2", proto::Command::kForgetJob).has_forget_job());
  EXPECT_EQ(cluster.Job().samples_committed(), 100 * kBatch);
  EXPECT_EQ(cluster.controller.AllNodes()[0].used_slots(), 0u);
}

TEST(Controller, FailsWhenTheLastCheckpointCannotBeWritten) {
  Cluster cluster = Running();
  cluster.Steps(1, 100);
  cluster.SealAll(100);
  for (uint32_t rank = 0; rank < 4; ++rank) {
    cluster.Exit(rank < 2 ? "node-1" : "node-2", rank, 0, 0);
  }
  proto::SnapshotFailed failed;
  failed.set_job_id("gpt-1");
  failed.set_attempt(1);
  failed.set_step(100);
  failed.set_reason("no space left on device");
  cluster.Report("node-1", &proto::Event::mutable_snapshot_failed, failed);
  EXPECT_EQ(cluster.Job().state(), proto::FAILED);
  EXPECT_THAT(cluster.Job().reason(), testing::HasSubstr("no space left"));
}

TEST(Controller, ADamagedCopyInMemoryIsNeverOfferedAgain) {
  Cluster cluster = Running();
  cluster.Steps(1, 10);
  cluster.SealAll(10);
  cluster.Save(10);
  cluster.Steps(11, 20);
  cluster.SealAll(20);
  cluster.Exit("node-1", 1, -1, SIGKILL);
  cluster.Start();
  proto::SnapshotFailed failed;
  failed.set_job_id("gpt-1");
  failed.set_attempt(2);
  failed.set_step(20);
  failed.set_while_restoring(true);
  failed.set_tier(proto::Restore::TIER_MEMORY);
  failed.set_rank(3);
  failed.set_reason("checksum of chunk 5");
  cluster.Report("node-2", &proto::Event::mutable_snapshot_failed, failed);
  EXPECT_EQ(cluster.Job().attempt(), 3u);
  cluster.Start();
  const auto start = cluster.Last("node-2", proto::Command::kStartWorkers).start_workers();
  EXPECT_EQ(start.restore().step(), 10u);
}

TEST(Controller, AStepIsCountedOnceHoweverOftenItIsReported) {
  Cluster cluster = Running();
  cluster.Steps(1, 3);
  const double productive = cluster.Job().ledger().categories(0).rank_seconds();
  cluster.Step(3);
  cluster.Step(2);
  cluster.Step(9);
  EXPECT_EQ(cluster.Job().step(), 3u);
  EXPECT_EQ(cluster.Job().ledger().categories(0).category(), proto::PRODUCTIVE);
  EXPECT_NEAR(cluster.Job().ledger().categories(0).rank_seconds() - productive, 4 * 0.3, 1e-9)
      << "the open step only";
}

// Its state may be in memory already, and then the next attempt begins after it.
TEST(Controller, TheLossOfAStepThatIsReportedAfterAFaultIsNotLost) {
  Cluster cluster = Running();
  cluster.Steps(1, 4);
  cluster.Disconnect("node-2");
  cluster.Exit("node-1", 0, 1,
               0);  // its peers are gone; whether node-2 comes back is not known yet
  ASSERT_EQ(cluster.Job().state(), proto::RECOVERING);
  const auto losses = [&](const std::string& node, uint64_t step) {
    proto::Event event;
    auto* report = event.mutable_step_reported();
    report->set_job_id("gpt-1");
    report->set_attempt(1);
    report->set_first_step(step);
    report->set_last_step(step);
    report->set_has_loss(true);
    report->set_loss(2.5);
    std::vector<uint64_t> steps;
    for (const auto& notification : cluster.Feed(event, true, node).notifications) {
      if (notification.has_step()) steps.push_back(notification.step().step());
    }
    return steps;
  };
  EXPECT_EQ(losses("node-1", 5), std::vector<uint64_t>{5});
  EXPECT_EQ(losses("node-1", 4), std::vector<uint64_t>{}) << "it was reported before";
  EXPECT_EQ(losses("node-1", 1'000'000'000), std::vector<uint64_t>{}) << "beyond its lease";
  EXPECT_EQ(cluster.Job().step(), 4u) << "its state may be lost";
}

TEST(Controller, IgnoresEventsOfAnOlderLifeOfAnAgent) {
  Cluster cluster = Running();
  cluster.Join("node-2", 2);
  const uint64_t attempt = cluster.Job().attempt();
  cluster.incarnation["node-2"] = 1;
  cluster.Exit("node-2", 3, -1, SIGKILL);
  EXPECT_EQ(cluster.Job().attempt(), attempt);
}

TEST(Controller, StopsAJobAndWaitsForItsWorkers) {
  Cluster cluster = Running();
  cluster.Steps(1, 3);
  proto::Event stop;
  stop.mutable_job_stop_requested()->set_job_id("gpt-1");
  stop.mutable_job_stop_requested()->set_reason("enough");
  cluster.Feed(stop);
  EXPECT_EQ(cluster.Job().state(), proto::STOPPING);
  for (const char* node : {"node-1", "node-2"}) {
    proto::AttemptClosed closed;
    closed.set_job_id("gpt-1");
    closed.set_attempt(1);
    cluster.Report(node, &proto::Event::mutable_attempt_closed, closed);
  }
  EXPECT_EQ(cluster.Job().state(), proto::STOPPED);
  EXPECT_EQ(cluster.Job().reason(), "enough");
}

TEST(Controller, StopsAtOnceWhenTheNodeItWaitsForIsLost) {
  Cluster cluster = Running();
  cluster.Steps(1, 3);
  cluster.Disconnect("node-2");
  proto::Event stop;
  stop.mutable_job_stop_requested()->set_job_id("gpt-1");
  cluster.Feed(stop);
  proto::AttemptClosed closed;
  closed.set_job_id("gpt-1");
  closed.set_attempt(1);
  cluster.Report("node-1", &proto::Event::mutable_attempt_closed, closed);
  EXPECT_EQ(cluster.Job().state(), proto::STOPPING);
  cluster.Join("node-2", 2);
  EXPECT_EQ(cluster.Job().state(), proto::STOPPED);
}

TEST(Controller, StopsAtOnceWhenTheAttemptHadClosedBefore) {
  Cluster cluster = Running();
  cluster.Steps(1, 3);
  cluster.Exit("node-1", 0, 1, 0);  // an error: what is behind it is waited for
  EXPECT_EQ(cluster.Job().state(), proto::RECOVERING);
  for (const char* node : {"node-1", "node-2"}) {
    proto::AttemptClosed closed;
    closed.set_job_id("gpt-1");
    closed.set_attempt(1);
    cluster.Report(node, &proto::Event::mutable_attempt_closed, closed);
  }
  proto::Event stop;
  stop.mutable_job_stop_requested()->set_job_id("gpt-1");
  cluster.Feed(stop);
  EXPECT_EQ(cluster.Job().state(), proto::STOPPED);
}

TEST(Controller, InjectsEachPlannedFaultOnceAndNamesIt) {
  Cluster cluster;
  cluster.Join("node-1");
  cluster.Join("node-2");
  proto::Job job = TwoByTwo();
  auto* fault = job.add_faults();
  fault->set_kind(proto::PlannedFault::KILL_WORKER);
  fault->set_target(3);
  fault->set_step(2);
  cluster.Submit(job);
  cluster.Start();
  const auto faults_to_come = [&cluster] {
    return cluster.Last("node-2", proto::Command::kStartWorkers).start_workers().job().faults();
  };
  EXPECT_EQ(faults_to_come().size(), 1);
  cluster.Steps(1, 2);
  EXPECT_EQ(cluster.Last("node-2", proto::Command::kInjectFault).inject_fault().fault().target(),
            3u);
  cluster.Exit("node-2", 3, -1, SIGKILL);
  EXPECT_TRUE(cluster.Job().faults(0).injected());
  const size_t sent = cluster.sent.size();
  cluster.Start();
  EXPECT_EQ(faults_to_come().size(), 0);
  cluster.Steps(1, 2);
  for (size_t i = sent; i < cluster.sent.size(); ++i) {
    EXPECT_FALSE(cluster.sent[i].second.has_inject_fault());
  }
}

TEST(Controller, AReplayOfItsLogGivesTheSameState) {
  Cluster cluster = Running();
  cluster.Steps(1, 10);
  cluster.SealAll(10);
  cluster.Exit("node-1", 1, -1, SIGKILL);
  cluster.Start();
  cluster.Steps(11, 15);
  Controller replayed({});
  for (const auto& [now, event] : cluster.log) (void)replayed.Step(event, now);
  EXPECT_EQ(replayed.StateHash(), cluster.controller.StateHash());
  cluster.Step(16);
  EXPECT_NE(replayed.StateHash(), cluster.controller.StateHash());
}

TEST(Controller, ARestartedOneSaysAgainWhatShouldRun) {
  Cluster cluster = Running();
  cluster.Steps(1, 3);
  proto::Event started;
  started.mutable_controller_started();
  cluster.Feed(started);
  const size_t sent = cluster.sent.size();
  cluster.Join("node-1", 1);
  cluster.Join("node-2", 1);
  EXPECT_EQ(cluster.Job().attempt(), 1u);
  ASSERT_GT(cluster.sent.size(), sent);
  EXPECT_EQ(cluster.sent.back().second.start_workers().attempt(), 1u);
  cluster.Steps(4, 5);
  EXPECT_EQ(cluster.Job().step(), 5u);
}

TEST(Controller, RefusesASecondLiveJobInOneRunDirectory) {
  Cluster cluster = Running();
  proto::Job job = TwoByTwo();
  EXPECT_EQ(cluster.controller.CheckSubmission(job).code(), Code::kAlreadyExists);
  job.set_id("other");
  job.set_nodes(0);
  EXPECT_EQ(cluster.controller.CheckSubmission(job).code(), Code::kInvalidArgument);
}

}  // namespace
}  // namespace longhaul::runtime
