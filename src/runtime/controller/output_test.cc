// Commands that report no steps: steps read from their output, or nothing at all.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <csignal>

#include "runtime/controller/cluster_fixture.h"

namespace longhaul::runtime::output_test {
namespace {

using namespace controller_testing;
using std::chrono::minutes;
using std::chrono::seconds;
using testing::HasSubstr;

proto::Job Command() {
  proto::Job job = TwoByTwo();
  job.mutable_workload()->set_built_in(false);
  job.mutable_workload()->set_step_pattern(R"(step (?P<step>\d+))");
  job.set_total_steps(0);
  job.clear_data();
  return job;
}

// A job whose processes run, and the lines that its workers print.
class Scripts {
 public:
  explicit Scripts(const proto::Job& job = Command()) {
    cluster.Join("node-1");
    cluster.Join("node-2");
    cluster.Submit(job);
    Start();
  }

  // All of the nodes' answers up to the workers' processes.
  void Start() {
    const uint64_t attempt = cluster.Job().attempt();
    proto::StoreOpened opened;
    opened.set_job_id("gpt-1");
    opened.set_attempt(attempt);
    opened.set_port(4000);
    cluster.Report("node-1", &proto::Event::mutable_store_opened, opened);
    for (const char* node : {"node-1", "node-2"}) {
      proto::WorkersStarted started;
      started.set_job_id("gpt-1");
      started.set_attempt(attempt);
      cluster.Report(node, &proto::Event::mutable_workers_started, started);
      said_.erase(node);
    }
  }
  // The node's agent has read a line with this step, so long after the last one.
  void Print(const std::string& node, uint64_t step, Duration after = seconds(1),
             uint64_t total = 0) {
    cluster.now += after;
    proto::StepReported report;
    report.set_job_id("gpt-1");
    report.set_attempt(cluster.Job().attempt());
    report.set_begins(!said_.contains(node));
    report.set_first_step(report.begins() ? step : said_[node] + 1);
    report.set_last_step(step);
    report.set_whole_job(true);
    report.set_has_loss(true);
    report.set_loss(10.0 / static_cast<double>(step + 1));
    report.set_total_steps(total);
    said_[node] = step;
    cluster.Report(node, &proto::Event::mutable_step_reported, report);
  }
  void Silent(const std::string& node, uint32_t rank, Duration silent, Duration stopped = {}) {
    proto::WorkerSilent event;
    event.set_job_id("gpt-1");
    event.set_attempt(cluster.Job().attempt());
    event.set_rank(rank);
    event.set_silent_ns(silent.count());
    event.set_stopped_ns(stopped.count());
    if (silent > Duration(0)) event.set_evidence("nothing at all");
    proto::Event whole;
    *whole.mutable_worker_silent() = event;
    for (const proto::Notification& notification : cluster.Feed(whole, true, node).notifications) {
      warnings.push_back(notification.message().text());
    }
  }
  // All four workers have shown no activity for so long.
  void AllSilent(Duration silent) {
    for (uint32_t rank = 0; rank < 4; ++rank) {
      Silent(rank < 2 ? "node-1" : "node-2", rank, silent);
    }
  }
  // The node's answer to a probe: of each of its two workers the stack or the state T.
  void Probed(const std::string& node, const std::vector<std::string>& stacks, bool resumed) {
    proto::WorkersProbed probed;
    probed.set_job_id("gpt-1");
    probed.set_attempt(cluster.Job().attempt());
    probed.set_with_stacks(!resumed);
    probed.set_stacks_file("logs/stacks-" + node + ".txt");
    for (uint32_t i = 0; i < stacks.size(); ++i) {
      auto* worker = probed.add_workers();
      worker->set_rank((node == "node-1" ? 0 : 2) + i);
      worker->set_process_state(stacks[i] == "T" ? "T" : "S");
      worker->set_resumed(resumed && stacks[i] == "T");
      worker->set_stack(stacks[i]);
    }
    cluster.Report(node, &proto::Event::mutable_workers_probed, probed);
  }
  double SecondsOf(proto::Category category) const {
    const proto::JobStatus job = cluster.Job();
    for (const auto& entry : job.ledger().categories()) {
      if (entry.category() == category) return entry.rank_seconds() / 4;
    }
    return -1;
  }

  Cluster cluster;
  std::vector<std::string> warnings;

 private:
  std::map<std::string, uint64_t> said_;
};

// Start-up 3 s, then steps of 1 s: of the ranks' time the steps after the first line are
// productive.
TEST(Output, StepsThatAreReadCountLikeStepsThatAreReported) {
  Scripts scripts;
  scripts.Print("node-1", 1, seconds(3), 100);
  for (uint64_t step = 2; step <= 10; ++step) scripts.Print("node-1", step, seconds(1), 100);
  const proto::JobStatus job = scripts.cluster.Job();
  EXPECT_EQ(job.step(), 10u);
  EXPECT_EQ(job.highest_step(), 10u);
  EXPECT_DOUBLE_EQ(job.first_loss(), 5.0);
  EXPECT_DOUBLE_EQ(job.eta_seconds(), 90);
  EXPECT_DOUBLE_EQ(scripts.SecondsOf(proto::START_UP_TIME), 3);
  EXPECT_DOUBLE_EQ(scripts.SecondsOf(proto::PRODUCTIVE), 9);
  EXPECT_DOUBLE_EQ(scripts.SecondsOf(proto::UNREPORTED), 0);
}

TEST(Output, PlannedFaultsHappenAtThePrintedStep) {
  proto::Job job = Command();
  for (const uint64_t step : {5, 50}) {
    auto* fault = job.add_faults();
    fault->set_kind(proto::PlannedFault::KILL_WORKER);
    fault->set_target(3);
    fault->set_step(step);
  }
  Scripts scripts(job);
  for (uint64_t step = 1; step <= 6; ++step) scripts.Print("node-1", step);
  EXPECT_EQ(
      scripts.cluster.Last("node-2", proto::Command::kInjectFault).inject_fault().fault().target(),
      3u);
  ASSERT_EQ(scripts.cluster.Job().faults_to_come_size(), 1);
  EXPECT_EQ(scripts.cluster.Job().faults_to_come(0).step(), 50u);
}

// The script saves every 10 steps by itself: killed after step 27 it continues with step 21.
TEST(Output, ARestartGoesBackToTheStepThatTheOutputShows) {
  Scripts scripts;
  for (uint64_t step = 1; step <= 27; ++step) scripts.Print("node-1", step);
  scripts.cluster.Exit("node-1", 0, -1, SIGKILL);
  EXPECT_DOUBLE_EQ(scripts.SecondsOf(proto::LOST_WORK), 0) << "not known yet";
  EXPECT_EQ(scripts.cluster.Job().faults(0).action(), "restart all workers");
  scripts.cluster.now += seconds(1);
  scripts.Start();
  scripts.Print("node-1", 21, seconds(4));
  const proto::Fault fault = scripts.cluster.Job().faults(0);
  EXPECT_EQ(fault.from_step(), 21u);
  EXPECT_EQ(fault.lost_steps(), 6u);
  EXPECT_THAT(fault.action(), HasSubstr("; the output continues with step 21"));
  EXPECT_EQ(fault.new_step_at_ns(), 0);
  EXPECT_DOUBLE_EQ(scripts.SecondsOf(proto::LOST_WORK), 6);
  for (uint64_t step = 22; step <= 28; ++step) scripts.Print("node-1", step);
  EXPECT_GT(scripts.cluster.Job().faults(0).new_step_at_ns(), fault.first_step_at_ns());
  EXPECT_DOUBLE_EQ(scripts.SecondsOf(proto::PRODUCTIVE), 20 + 7);
}

TEST(Output, ARestartFromTheBeginningLosesAll) {
  Scripts scripts;
  for (uint64_t step = 0; step <= 9; ++step) scripts.Print("node-1", step);
  scripts.cluster.Exit("node-1", 0, -1, SIGKILL);
  scripts.Start();
  scripts.Print("node-1", 0);
  EXPECT_EQ(scripts.cluster.Job().step(), 0u);
  EXPECT_EQ(scripts.cluster.Job().faults(0).lost_steps(), 9u);
  EXPECT_DOUBLE_EQ(scripts.SecondsOf(proto::LOST_WORK), 9);
}

// Each node's agent sees a beginning of its own, and they print different steps.
TEST(Output, StepsThatSeveralNodesPrintCountOnce) {
  Scripts scripts;
  scripts.Print("node-1", 10);
  scripts.Print("node-2", 10, seconds(0));
  scripts.Print("node-2", 12, seconds(2));
  scripts.Print("node-1", 11, seconds(0));
  scripts.Print("node-1", 13, seconds(1));
  EXPECT_EQ(scripts.cluster.Job().step(), 13u);
  EXPECT_DOUBLE_EQ(scripts.SecondsOf(proto::PRODUCTIVE), 3);
}

// An evaluation is silent for minutes: stopped workers are continued, but nothing is restarted
// before the time in which PyTorch itself gives up.
TEST(Output, SilenceBetweenPrintedStepsIsNoHangForHalfAnHour) {
  Scripts scripts;
  for (uint64_t step = 1; step <= 5; ++step) scripts.Print("node-1", step);
  scripts.cluster.TickUntil(scripts.cluster.now + seconds(121));
  EXPECT_TRUE(scripts.cluster.Last("node-2", proto::Command::kProbeWorkers)
                  .probe_workers()
                  .resume_stopped());
  scripts.cluster.TickUntil(scripts.cluster.now + minutes(27));
  EXPECT_EQ(scripts.cluster.Job().attempt(), 1u);
  scripts.cluster.TickUntil(scripts.cluster.now + minutes(3));
  EXPECT_GE(scripts.cluster.Job().attempt(), 2u);
  EXPECT_EQ(scripts.cluster.Job().faults(0).class_name(), "hang");
}

TEST(Output, AfterTheLastPrintedStepNothingIsAHang) {
  Scripts scripts;
  for (uint64_t step = 1; step <= 5; ++step) scripts.Print("node-1", step, seconds(1), 5);
  scripts.cluster.TickUntil(scripts.cluster.now + minutes(300));
  EXPECT_EQ(scripts.cluster.Job().faults_size(), 0);
}

TEST(Output, AStallShowsInWhatIsPrintedToo) {
  Scripts scripts;
  for (uint64_t step = 1; step <= 20; ++step) scripts.Print("node-1", step);
  scripts.Print("node-1", 21, seconds(6));
  EXPECT_DOUBLE_EQ(scripts.SecondsOf(proto::STALL), 5);
}

TEST(Output, AReplayGivesTheSameState) {
  Scripts scripts;
  for (uint64_t step = 1; step <= 12; ++step) scripts.Print("node-1", step);
  scripts.cluster.Exit("node-1", 0, -1, SIGKILL);
  scripts.Start();
  scripts.Print("node-1", 7);
  scripts.Silent("node-2", 3, minutes(1));
  Controller replayed{ControllerOptions()};
  for (const auto& [now, event] : scripts.cluster.log) replayed.Step(event, now);
  EXPECT_EQ(replayed.StateHash(), scripts.cluster.controller.StateHash());
}

TEST(Output, ASilentWorkerIsReportedOnceUntilItPrintsAgain) {
  proto::Job job = Command();
  job.mutable_workload()->clear_step_pattern();
  Scripts scripts(job);
  scripts.Silent("node-2", 3, minutes(1));
  scripts.Silent("node-2", 3, minutes(2));
  ASSERT_EQ(scripts.warnings.size(), 1u);
  EXPECT_THAT(scripts.warnings[0],
              HasSubstr("worker 3 on node-2 has shown no activity for 1 min 0 s (nothing at all)"));
  scripts.Silent("node-2", 3, seconds(0));
  scripts.Silent("node-2", 3, minutes(1));
  EXPECT_EQ(scripts.warnings.size(), 2u);
  EXPECT_EQ(scripts.cluster.Job().attempt(), 1u) << "it is left alone";
  scripts.Silent("node-1", 3, minutes(1));
  EXPECT_EQ(scripts.warnings.size(), 2u) << "node-1 has no rank 3";
}

// Reports through the worker API without a loss move the job on as well (longhaul.report(step)).
TEST(Output, AStepWithoutALossIsProgress) {
  proto::Job job = TwoByTwo();
  auto* fault = job.add_faults();
  fault->set_kind(proto::PlannedFault::KILL_WORKER);
  fault->set_step(1);
  Cluster cluster;
  cluster.Join("node-1");
  cluster.Join("node-2");
  cluster.Submit(job);
  cluster.Start();
  proto::StepReported report;
  report.set_job_id("gpt-1");
  report.set_attempt(1);
  report.set_first_step(1);
  report.set_last_step(1);
  cluster.Report("node-2", &proto::Event::mutable_step_reported, report);
  EXPECT_EQ(cluster.Job().step(), 0u) << "rank 0's node speaks for the job";
  cluster.Report("node-1", &proto::Event::mutable_step_reported, report);
  EXPECT_EQ(cluster.Job().step(), 1u);
  EXPECT_EQ(cluster.Job().faults_to_come_size(), 0);
}

TEST(Output, WhatFollowsTheLastStepOfARunThatEndsWellIsNotLost) {
  Cluster cluster = Running();
  cluster.Steps(1, 5);
  cluster.now += seconds(2);
  for (uint32_t rank = 0; rank < 4; ++rank) {
    cluster.Exit(rank < 2 ? "node-1" : "node-2", rank, 0, 0);
  }
  ASSERT_EQ(cluster.Job().state(), proto::SUCCEEDED);
  double lost = -1;
  double finish = -1;
  const proto::JobStatus job = cluster.Job();
  for (const auto& entry : job.ledger().categories()) {
    if (entry.category() == proto::LOST_WORK) lost = entry.rank_seconds();
    if (entry.category() == proto::FINISH) finish = entry.rank_seconds();
  }
  EXPECT_DOUBLE_EQ(lost, 0);
  EXPECT_DOUBLE_EQ(finish, 8);
}

// ---------------------------------------------------------------------------------------- hangs

proto::Job WithoutSteps() {
  proto::Job job = Command();
  job.mutable_workload()->clear_step_pattern();
  return job;
}

TEST(CommandHangs, AGangThatIsIdleWithoutAStepIsRestartedWithItsStacks) {
  Scripts scripts;
  for (uint64_t step = 1; step <= 5; ++step) scripts.Print("node-1", step);
  scripts.cluster.TickUntil(scripts.cluster.now + seconds(122));
  scripts.AllSilent(seconds(120));
  EXPECT_EQ(scripts.cluster.Job().attempt(), 1u) << "the stacks are awaited";
  EXPECT_TRUE(
      scripts.cluster.Last("node-2", proto::Command::kProbeWorkers).probe_workers().with_stacks());
  scripts.Probed("node-1", {"all_reduce (c10d.py:1)", "all_reduce (c10d.py:1)"}, false);
  EXPECT_EQ(scripts.cluster.Job().attempt(), 1u);
  scripts.Probed("node-2", {"all_reduce (c10d.py:1)", "sleep (train.py:7)"}, false);
  EXPECT_EQ(scripts.cluster.Job().attempt(), 2u);
  const proto::Fault fault = scripts.cluster.Job().faults(0);
  EXPECT_EQ(fault.class_name(), "hang");
  EXPECT_EQ(fault.rank(), 3);
  EXPECT_EQ(fault.node(), "node-2");
  EXPECT_THAT(fault.what(), HasSubstr("no activity of any worker for 2 min 0 s and no step for"));
  EXPECT_THAT(fault.what(), HasSubstr("worker 3 differs from the others; "));
  EXPECT_THAT(fault.what(), HasSubstr("(logs/stacks-node-1.txt, logs/stacks-node-2.txt)"));
}

TEST(CommandHangs, OneActiveWorkerIsEnoughForAllToBeLeftAlone) {
  Scripts scripts;
  for (uint64_t step = 1; step <= 5; ++step) scripts.Print("node-1", step);
  for (int minute = 1; minute < 28; ++minute) {
    scripts.cluster.TickUntil(scripts.cluster.now + minutes(1));
    for (uint32_t rank = 1; rank < 4; ++rank) {
      scripts.Silent(rank < 2 ? "node-1" : "node-2", rank, minutes(minute));
    }
    // It is idle too, now and then.
    scripts.Silent("node-1", 0, minute % 2 == 0 ? seconds(0) : seconds(119));
  }
  EXPECT_EQ(scripts.cluster.Job().attempt(), 1u);
  EXPECT_EQ(scripts.cluster.Job().faults_size(), 0);
}

// Steps of 60 s: three minutes without one are usual.
TEST(CommandHangs, TheLimitFollowsTheSlowestRecentStep) {
  Scripts scripts;
  for (uint64_t step = 1; step <= 5; ++step) scripts.Print("node-1", step, seconds(60));
  scripts.cluster.TickUntil(scripts.cluster.now + seconds(175));
  scripts.AllSilent(seconds(175));
  scripts.cluster.TickUntil(scripts.cluster.now + seconds(6));
  EXPECT_EQ(scripts.cluster.Job().faults_size(), 0);
  scripts.cluster.TickUntil(scripts.cluster.now + seconds(6));
  scripts.AllSilent(seconds(185));
  scripts.cluster.TickUntil(scripts.cluster.now + seconds(6));
  EXPECT_EQ(scripts.cluster.Job().attempt(), 2u) << "no node has answered within 5 s";
}

TEST(CommandHangs, BeforeThreeTimesAreKnownTheLimitIsTheOneWithoutSteps) {
  Scripts scripts;
  scripts.Print("node-1", 1);
  scripts.Print("node-1", 2);
  scripts.cluster.TickUntil(scripts.cluster.now + minutes(10));
  scripts.AllSilent(seconds(599));
  scripts.cluster.TickUntil(scripts.cluster.now + seconds(6));
  EXPECT_EQ(scripts.cluster.Job().faults_size(), 0);
  scripts.AllSilent(seconds(600));
  scripts.cluster.TickUntil(scripts.cluster.now + seconds(6));
  EXPECT_EQ(scripts.cluster.Job().attempt(), 2u);
}

TEST(CommandHangs, AStepWhileTheStacksAreGatheredEndsTheSuspicion) {
  Scripts scripts;
  for (uint64_t step = 1; step <= 5; ++step) scripts.Print("node-1", step);
  scripts.cluster.TickUntil(scripts.cluster.now + seconds(122));
  scripts.AllSilent(seconds(120));
  scripts.Print("node-1", 6);
  scripts.Probed("node-1", {"a", "a"}, false);
  scripts.Probed("node-2", {"a", "b"}, false);
  scripts.cluster.TickUntil(scripts.cluster.now + seconds(20));
  EXPECT_EQ(scripts.cluster.Job().attempt(), 1u);
  EXPECT_EQ(scripts.cluster.Job().faults_size(), 0);
}

TEST(CommandHangs, WithoutStepsTheWholeGangMustBeIdleForTenMinutes) {
  Scripts scripts(WithoutSteps());
  scripts.cluster.TickUntil(scripts.cluster.now + minutes(30));
  scripts.AllSilent(seconds(599));
  EXPECT_EQ(scripts.cluster.Job().faults_size(), 0);
  scripts.AllSilent(seconds(600));
  scripts.cluster.TickUntil(scripts.cluster.now + seconds(6));
  EXPECT_EQ(scripts.cluster.Job().attempt(), 2u);
  EXPECT_THAT(scripts.cluster.Job().faults(0).what(), testing::Not(HasSubstr("no step")));
}

TEST(CommandHangs, NeverTurnsALimitOff) {
  proto::Job job = WithoutSteps();
  job.mutable_hang()->set_idle_ns(-1);
  Scripts scripts(job);
  scripts.cluster.TickUntil(scripts.cluster.now + minutes(600));
  scripts.AllSilent(minutes(599));
  scripts.cluster.TickUntil(scripts.cluster.now + minutes(1));
  EXPECT_EQ(scripts.cluster.Job().faults_size(), 0);
  EXPECT_THAT(scripts.warnings[0], HasSubstr("it is not restarted"));
}

TEST(CommandHangs, AStoppedWorkerIsContinuedOnceAndThenRestarted) {
  Scripts scripts(WithoutSteps());
  scripts.cluster.TickUntil(scripts.cluster.now + minutes(5));
  scripts.Silent("node-2", 2, seconds(30), seconds(30));
  const proto::Command probe = scripts.cluster.Last("node-2", proto::Command::kProbeWorkers);
  EXPECT_TRUE(probe.probe_workers().resume_stopped());
  EXPECT_FALSE(probe.probe_workers().with_stacks());
  scripts.Probed("node-2", {"T", "S"}, true);
  ASSERT_EQ(scripts.cluster.Job().faults_size(), 1);
  EXPECT_EQ(scripts.cluster.Job().faults(0).what(), "worker 2 was stopped (state T) for 30 s");
  EXPECT_NEAR(scripts.SecondsOf(proto::DETECT), 30, 0.1);
  // The report of a sample that was taken before it went on.
  scripts.Silent("node-2", 2, seconds(38), seconds(38));
  scripts.cluster.TickUntil(scripts.cluster.now + seconds(6));
  EXPECT_EQ(scripts.cluster.Job().attempt(), 1u);
  scripts.Silent("node-2", 2, seconds(0));
  scripts.Silent("node-2", 2, seconds(31), seconds(31) - seconds(1) + Duration(-1));
  scripts.cluster.TickUntil(scripts.cluster.now + seconds(6));
  EXPECT_EQ(scripts.cluster.Job().attempt(), 2u);
  EXPECT_THAT(scripts.cluster.Job().faults(1).what(), HasSubstr("although it was continued"));
}

TEST(CommandHangs, AWorkerThatCannotBeContinuedIsRestarted) {
  Scripts scripts(WithoutSteps());
  scripts.Silent("node-2", 2, seconds(30), seconds(30));
  scripts.Silent("node-2", 2, seconds(59), seconds(59));
  EXPECT_EQ(scripts.cluster.Job().faults_size(), 0);
  scripts.Silent("node-2", 2, seconds(60), seconds(60));
  scripts.cluster.TickUntil(scripts.cluster.now + seconds(6));
  EXPECT_EQ(scripts.cluster.Job().attempt(), 2u);
}

TEST(CommandHangs, AWorkerThatHasEndedIsNotWaitedFor) {
  Scripts scripts(WithoutSteps());
  scripts.Silent("node-1", 0, minutes(1));
  scripts.cluster.Exit("node-1", 0, 0, 0);
  scripts.cluster.TickUntil(scripts.cluster.now + minutes(30));
  for (uint32_t rank = 1; rank < 4; ++rank) {
    scripts.Silent(rank < 2 ? "node-1" : "node-2", rank, minutes(10));
  }
  scripts.cluster.TickUntil(scripts.cluster.now + seconds(6));
  EXPECT_EQ(scripts.cluster.Job().attempt(), 2u);
}

}  // namespace
}  // namespace longhaul::runtime::output_test
