#include "runtime/agent/rank_reports.h"

#include <gtest/gtest.h>

#include <limits>
#include <optional>
#include <vector>

namespace longhaul::runtime {
namespace {

using std::chrono::milliseconds;

const JobId kJob("job-1");

Instant At(int64_t ms) { return Instant(milliseconds(ms)); }
WorkerId Rank(uint32_t rank) { return {kJob, 3, rank}; }

WorkerStep StepOf(uint32_t rank, uint64_t step, int64_t at_ms = 0) {
  WorkerStep report;
  report.worker = Rank(rank);
  report.step = step;
  report.at = At(at_ms);
  return report;
}

TEST(RankReports, TellsAPhaseWhenTheLastRankHasEnteredIt) {
  RankReports reports(kJob, 3, 2, 2);
  EXPECT_FALSE(reports.Phase({Rank(2), proto::PhaseEntered::START_UP, At(5)}));
  const auto event = reports.Phase({Rank(3), proto::PhaseEntered::START_UP, At(4)});
  ASSERT_TRUE(event.has_value());
  EXPECT_EQ(event->phase_entered().phase(), proto::PhaseEntered::START_UP);
  EXPECT_EQ(event->phase_entered().attempt(), 3u);
  EXPECT_EQ(event->at_ns(), ToNanoseconds(At(5))) << "the last one's entry, not the last report's";
}

TEST(RankReports, CountsAHigherPhaseAsEnteringTheLowerOnes) {
  RankReports reports(kJob, 3, 0, 2);
  EXPECT_FALSE(reports.Phase({Rank(0), proto::PhaseEntered::STEPPING, At(9)}));
  const auto rendezvous = reports.Phase({Rank(1), proto::PhaseEntered::RENDEZVOUS, At(2)});
  ASSERT_TRUE(rendezvous.has_value());
  EXPECT_EQ(rendezvous->phase_entered().phase(), proto::PhaseEntered::RENDEZVOUS);
  EXPECT_EQ(rendezvous->at_ns(), ToNanoseconds(At(9)));
}

TEST(RankReports, IgnoresAPhaseThatGoesBackOrIsNone) {
  RankReports reports(kJob, 3, 0, 1);
  EXPECT_TRUE(reports.Phase({Rank(0), proto::PhaseEntered::STEPPING, At(1)}));
  EXPECT_FALSE(reports.Phase({Rank(0), proto::PhaseEntered::RESTORE, At(2)}));
  EXPECT_FALSE(reports.Phase({Rank(0), static_cast<proto::PhaseEntered::Phase>(77), At(2)}));
}

TEST(RankReports, SaysWithSteppingWhereTheStateCameFrom) {
  RankReports reports(kJob, 3, 0, 2);
  reports.Restored({Rank(0), 36, proto::Restore::TIER_MEMORY});
  reports.Restored({Rank(1), 36, proto::Restore::TIER_DISK});
  reports.Phase({Rank(0), proto::PhaseEntered::STEPPING, At(1)});
  const auto event = reports.Phase({Rank(1), proto::PhaseEntered::STEPPING, At(1)});
  ASSERT_TRUE(event.has_value());
  EXPECT_EQ(event->phase_entered().restored_step(), 36u);
  EXPECT_EQ(event->phase_entered().restored_from(), proto::Restore::TIER_DISK);
}

TEST(RankReports, AveragesTimesAndTakesTheLossFromTheRankThatHasIt) {
  RankReports reports(kJob, 3, 0, 2);
  WorkerStep first = StepOf(0, 1, 7);
  first.data = milliseconds(10);
  WorkerStep second = StepOf(1, 1, 6);
  second.data = milliseconds(30);
  second.loss = 2.5;
  second.tokens = 512;
  EXPECT_FALSE(reports.Step(second));
  const auto event = reports.Step(first);
  ASSERT_TRUE(event.has_value());
  const proto::StepReported& merged = event->step_reported();
  EXPECT_EQ(merged.times().data_ns(), 20'000'000);
  EXPECT_EQ(event->at_ns(), ToNanoseconds(At(7)));
  EXPECT_TRUE(merged.has_loss());
  EXPECT_EQ(merged.loss(), 2.5);
  EXPECT_EQ(merged.tokens(), 512u);
}

WorkerStep StepWithWaits(uint32_t rank, uint64_t step, int64_t at_ms, int64_t communication_ms) {
  WorkerStep report = StepOf(rank, step, at_ms);
  report.communication = milliseconds(communication_ms);
  report.data = milliseconds(1);
  return report;
}

std::vector<uint32_t> WorkIn(const std::optional<proto::Event>& event) {
  if (!event.has_value()) return {};
  const auto& work_us = event->step_reported().rank_work_us();
  return {work_us.begin(), work_us.end()};
}

// Both ranks end their steps together, 20 ms apart. Rank 3 computes for 18 ms, and rank 2 waits.
TEST(RankReports, HasTheTimeInWhichEachRankWorks) {
  RankReports reports(kJob, 3, 2, 2);
  reports.Step(StepWithWaits(2, 1, 1'000, 5));
  EXPECT_EQ(WorkIn(reports.Step(StepWithWaits(3, 1, 1'000, 5))), (std::vector<uint32_t>{0, 0}))
      << "the first step of an attempt warms up";
  reports.Step(StepWithWaits(2, 2, 1'020, 14));
  EXPECT_EQ(WorkIn(reports.Step(StepWithWaits(3, 2, 1'020, 1))),
            (std::vector<uint32_t>{5'000, 18'000}));
  reports.Step(StepWithWaits(2, 4, 1'060, 14));
  EXPECT_EQ(WorkIn(reports.Step(StepWithWaits(3, 3, 1'040, 1))), (std::vector<uint32_t>{}));
  EXPECT_EQ(WorkIn(reports.Step(StepWithWaits(3, 4, 1'060, 30))), (std::vector<uint32_t>{0, 9'000}))
      << "rank 2 has not reported step 3; the mean of 18 ms and of what is left of 20 ms";
  RankReports silent(kJob, 3, 0, 1);
  silent.Step(StepOf(0, 1, 1'000));
  EXPECT_EQ(WorkIn(silent.Step(StepOf(0, 2, 1'020))), (std::vector<uint32_t>{}))
      << "without the time of communication all ranks would be equal";
}

TEST(RankReports, NamesTheRanksWhoseLossIsNotFiniteOnEveryNode) {
  RankReports reports(kJob, 3, 2, 2);
  WorkerStep bad = StepOf(3, 1);
  bad.loss = std::numeric_limits<double>::infinity();
  WorkerStep good = StepOf(2, 1);
  good.loss = 2.0;
  EXPECT_FALSE(reports.Step(bad));
  const auto event = reports.Step(good);
  ASSERT_TRUE(event.has_value());
  ASSERT_EQ(event->step_reported().not_finite_ranks_size(), 1);
  EXPECT_EQ(event->step_reported().not_finite_ranks(0), 3u);
  reports.Step(StepOf(2, 2));
  EXPECT_EQ(reports.Step(StepOf(3, 2))->step_reported().not_finite_ranks_size(), 0);
}

TEST(RankReports, OnlyTheNodeOfRankZeroSpeaksForTheJob) {
  RankReports reports(kJob, 3, 2, 1);
  WorkerStep report = StepOf(2, 1);
  report.loss = 2.5;
  report.tokens = 512;
  const auto event = reports.Step(report);
  ASSERT_TRUE(event.has_value());
  EXPECT_FALSE(event->step_reported().has_loss());
  EXPECT_EQ(event->step_reported().tokens(), 0u);
}

TEST(RankReports, CoversStepsThatSomeRanksDidNotReport) {
  RankReports reports(kJob, 3, 0, 2);
  reports.Restored({Rank(0), 0, proto::Restore::TIER_NONE});
  EXPECT_FALSE(reports.Step(StepOf(0, 10)));
  EXPECT_FALSE(reports.Step(StepOf(0, 20)));
  const auto event = reports.Step(StepOf(1, 20));
  ASSERT_TRUE(event.has_value());
  EXPECT_EQ(event->step_reported().first_step(), 1u);
  EXPECT_EQ(event->step_reported().last_step(), 20u);
  EXPECT_FALSE(reports.Step(StepOf(1, 20))) << "twice";
  EXPECT_EQ(reports.last_step(1), 20u);
}

TEST(RankReports, ARankFarAheadCostsNoUnboundedMemoryAndNoSteps) {
  RankReports reports(kJob, 3, 0, 2);
  reports.Restored({Rank(0), 0, proto::Restore::TIER_NONE});
  const uint64_t ahead = 2 * kMaxStepsApart;
  for (uint64_t step = 1; step <= ahead; ++step) EXPECT_FALSE(reports.Step(StepOf(0, step)));
  EXPECT_FALSE(reports.Step(StepOf(1, 1))) << "forgotten";
  const auto event = reports.Step(StepOf(1, ahead));
  ASSERT_TRUE(event.has_value());
  EXPECT_EQ(event->step_reported().first_step(), 1u);
  EXPECT_EQ(event->step_reported().last_step(), ahead);
}

TEST(RankReports, TellsASealWithTheLongestBlockAndAllBytes) {
  RankReports reports(kJob, 3, 0, 2);
  EXPECT_FALSE(reports.Sealed({Rank(0), 30, milliseconds(4), 100, At(1)}));
  EXPECT_FALSE(reports.Sealed({Rank(0), 30, milliseconds(4), 100, At(1)})) << "twice";
  WorkerSealed longest{Rank(1), 30, milliseconds(6), 50, At(2)};
  longest.waited = milliseconds(2);
  longest.way = proto::GUARDED;
  const auto event = reports.Sealed(longest);
  ASSERT_TRUE(event.has_value());
  EXPECT_EQ(event->snapshot_sealed().step(), 30u);
  EXPECT_EQ(event->snapshot_sealed().blocked_ns(), 6'000'000);
  EXPECT_EQ(event->snapshot_sealed().bytes(), 150u);
  EXPECT_EQ(event->snapshot_sealed().waited_ns(), 2'000'000);
  EXPECT_EQ(event->snapshot_sealed().way(), proto::GUARDED);
}

}  // namespace
}  // namespace longhaul::runtime
