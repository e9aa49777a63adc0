// Commands that report no steps: steps read from their output, or nothing at all.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <csignal>

#include "runtime/controller/cluster_fixture.h"

namespace longhaul::runtime {
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
  void Silent(const std::string& node, uint32_t rank, Duration silent) {
    proto::WorkerSilent event;
    event.set_job_id("gpt-1");
    event.set_attempt(cluster.Job().attempt());
    event.set_rank(rank);
    event.set_silent_ns(silent.count());
    proto::Event whole;
    *whole.mutable_worker_silent() = event;
    for (const proto::Notification& notification : cluster.Feed(whole, true, node).notifications) {
      warnings.push_back(notification.message().text());
    }
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
  scripts.cluster.TickUntil(scripts.cluster.now + seconds(61));
  EXPECT_TRUE(scripts.cluster.Last("node-2", proto::Command::kProbeWorkers)
                  .probe_workers()
                  .resume_stopped());
  scripts.cluster.TickUntil(scripts.cluster.now + minutes(28));
  EXPECT_EQ(scripts.cluster.Job().attempt(), 1u);
  scripts.cluster.TickUntil(scripts.cluster.now + minutes(3));
  EXPECT_EQ(scripts.cluster.Job().attempt(), 2u);
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
              HasSubstr("worker 3 on node-2 has written nothing and used no processor time for "));
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

}  // namespace
}  // namespace longhaul::runtime
