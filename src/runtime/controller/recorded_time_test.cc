// The notifications record where the time of a job went, and which ranks work longest.
#include <gtest/gtest.h>

#include <vector>

#include "runtime/controller/cluster_fixture.h"

namespace longhaul::runtime::recorded_time_test {
namespace {

using namespace controller_testing;
using std::chrono::milliseconds;

class Recorded : public testing::Test {
 protected:
  Recorded() {
    cluster_.Join("node-1");
    cluster_.Join("node-2");
    cluster_.Submit(TwoByTwo());
    cluster_.Start();
  }

  // A step of 100 ms, of which rank 3 works `slow_us` and the others 20 ms.
  void Step(uint64_t step, uint32_t slow_us) {
    cluster_.now += milliseconds(100);
    for (size_t place = 0; place < 2; ++place) {
      proto::Event event;
      proto::StepReported& report = *event.mutable_step_reported();
      report.set_job_id("gpt-1");
      report.set_attempt(cluster_.Job().attempt());
      report.set_first_step(step);
      report.set_last_step(step);
      report.add_rank_work_us(20'000);
      report.add_rank_work_us(place == 1 ? slow_us : 20'000);
      Keep(cluster_.Feed(event, true, cluster_.gang[place]));
    }
  }
  void Keep(const Actions& actions) {
    for (const proto::Notification& each : actions.notifications) {
      if (each.has_ledger()) with_ledger_.push_back(each);
      if (each.has_rank_work()) work_.push_back(each.rank_work());
    }
  }

  Cluster cluster_;
  std::vector<proto::Notification> with_ledger_;
  std::vector<proto::RankWork> work_;
};

TEST_F(Recorded, AStepASecondHasTheLedgerAndTheWorkOfTheRanks) {
  for (uint64_t step = 1; step <= 31; ++step) Step(step, 50'000);
  EXPECT_GE(with_ledger_.size(), 3u);
  EXPECT_LE(with_ledger_.size(), 6u) << "with the change of state by the first step";
  ASSERT_GE(work_.size(), 2u);
  const proto::RankWork& work = work_.back();
  EXPECT_EQ(std::vector<uint32_t>(work.work_us().begin(), work.work_us().end()),
            (std::vector<uint32_t>{20'000, 20'000, 20'000, 50'000}));
}

TEST_F(Recorded, EveryStageOfAFaultHasTheLedgerOfItsMoment) {
  for (uint64_t step = 1; step <= 9; ++step) Step(step, 20'000);
  with_ledger_.clear();
  proto::Event event;
  proto::WorkerExited& exited = *event.mutable_worker_exited();
  exited.set_job_id("gpt-1");
  exited.set_attempt(1);
  exited.set_rank(1);
  exited.set_signal(9);
  cluster_.now += milliseconds(10);
  Keep(cluster_.Feed(event, true, "node-1"));
  ASSERT_FALSE(with_ledger_.empty());
  EXPECT_TRUE(with_ledger_[0].has_fault() || with_ledger_[0].has_state());
  double sum = 0;
  for (const auto& each : with_ledger_.back().ledger().categories()) {
    EXPECT_GT(each.rank_seconds(), 0);
    sum += each.rank_seconds();
  }
  EXPECT_NEAR(sum, cluster_.Job().ledger().rank_seconds(), 1e-9);
}

}  // namespace
}  // namespace longhaul::runtime::recorded_time_test
