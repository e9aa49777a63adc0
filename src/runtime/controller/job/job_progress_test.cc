#include "runtime/controller/job/job_progress.h"

#include <gtest/gtest.h>

#include <limits>

namespace longhaul::runtime::controller {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

const Instant kNow = Instant{} + seconds(100);

proto::StepReported Steps(uint64_t first, uint64_t last, double tokens = 0) {
  proto::StepReported report;
  report.set_first_step(first);
  report.set_last_step(last);
  report.set_tokens(static_cast<decltype(report.tokens())>(tokens));
  return report;
}

TEST(JobProgress, TheFirstReportOfAnAttemptSaysNothingOfTheSpeed) {
  JobProgress progress;
  EXPECT_TRUE(progress.TakeSteps(Steps(1, 1, 100), seconds(30), kNow).first_of_attempt);
  EXPECT_EQ(progress.step_seconds(), 0);
  proto::StepReported report = Steps(2, 3, 200);
  report.set_flops(6e9);
  EXPECT_FALSE(progress.TakeSteps(report, seconds(2), kNow).first_of_attempt);
  EXPECT_DOUBLE_EQ(progress.step_seconds(), 1.0);
  EXPECT_DOUBLE_EQ(progress.flops_per_second(), 3e9);
  EXPECT_DOUBLE_EQ(progress.tokens_per_second(), 100.0);
}

// Worked by hand: 0.8 * 1 s + 0.2 * 2 s.
TEST(JobProgress, TheTimeOfAStepIsAMovingAverage) {
  JobProgress progress;
  progress.TakeSteps(Steps(1, 1), seconds(9), kNow);
  progress.TakeSteps(Steps(2, 2), seconds(1), kNow);
  progress.TakeSteps(Steps(3, 3), seconds(2), kNow);
  EXPECT_DOUBLE_EQ(progress.step_seconds(), 1.2);
  EXPECT_DOUBLE_EQ(progress.EtaSeconds(13), 12.0);
  EXPECT_EQ(progress.EtaSeconds(0), -1);
  EXPECT_EQ(progress.EtaSeconds(2), -1);
}

TEST(JobProgress, StepsThatAreDoneAgainCountOnce) {
  JobProgress progress;
  progress.TakeSteps(Steps(1, 10, 1000), seconds(10), kNow);
  progress.BeginAttempt(4);
  EXPECT_EQ(progress.step(), 4u);
  EXPECT_EQ(progress.highest_step(), 10u);
  EXPECT_FALSE(progress.reports_steps());
  EXPECT_FALSE(progress.TakeSteps(Steps(5, 8, 400), seconds(4), kNow).new_step);
  EXPECT_DOUBLE_EQ(progress.tokens(), 1000);
  // Of the steps 9 to 12 two are new.
  EXPECT_TRUE(progress.TakeSteps(Steps(9, 12, 400), seconds(4), kNow).new_step);
  EXPECT_DOUBLE_EQ(progress.tokens(), 1200);
}

TEST(JobProgress, ALossThatIsNotFiniteIsNewUntilAllAreFiniteAgain) {
  JobProgress progress;
  EXPECT_FALSE(progress.TakeNotFinite(0, 2, {}));
  EXPECT_TRUE(progress.TakeNotFinite(2, 2, {3}));
  EXPECT_FALSE(progress.TakeNotFinite(0, 2, {0, 1})) << "it follows from the first one";
  EXPECT_FALSE(progress.TakeNotFinite(2, 2, {}));
  EXPECT_FALSE(progress.TakeNotFinite(2, 2, {3})) << "those of others are not finite yet";
  progress.TakeNotFinite(0, 2, {});
  progress.TakeNotFinite(2, 2, {});
  EXPECT_TRUE(progress.TakeNotFinite(2, 2, {2}));
  progress.BeginAttempt(4);
  EXPECT_TRUE(progress.TakeNotFinite(2, 2, {2}));
}

TEST(JobProgress, TheStepBeforeARestartIsReturnedOnce) {
  JobProgress progress;
  progress.TakeSteps(Steps(1, 10), seconds(10), kNow);
  progress.BeginAttempt(0);
  progress.BeginAttempt(0);  // an attempt without a report changes nothing
  EXPECT_EQ(progress.TakeStepBefore(), 10u);
  EXPECT_EQ(progress.TakeStepBefore(), 0u);
}

TEST(JobProgress, ARestoredStepWasDone) {
  JobProgress progress;
  progress.BeginAttempt(40);
  EXPECT_EQ(progress.highest_step(), 40u);
}

TEST(JobProgress, AValidationLossIsOfTheNewestEvaluationBeforeAStep) {
  JobProgress progress;
  const auto evaluate = [&](uint64_t step, double loss) {
    proto::StepReported report = Steps(step, step);
    report.set_has_validation_loss(true);
    report.set_validation_loss(loss);
    progress.TakeLosses(report);
  };
  EXPECT_FALSE(progress.ValidationLossAt(100).has_value());
  evaluate(10, 3.0);
  evaluate(20, 2.0);
  evaluate(30, std::numeric_limits<double>::quiet_NaN());
  EXPECT_FALSE(progress.ValidationLossAt(9).has_value());
  EXPECT_EQ(progress.ValidationLossAt(19), 3.0);
  EXPECT_EQ(progress.ValidationLossAt(20), 2.0);
  EXPECT_FALSE(progress.ValidationLossAt(35).has_value());
  EXPECT_EQ(progress.losses().first_validation, 3.0);
  progress.BeginAttempt(15);
  EXPECT_EQ(progress.ValidationLossAt(35), 3.0);
}

TEST(JobProgress, ThePlannedStepsComeBeforeThoseOfTheOutput) {
  JobProgress progress;
  EXPECT_EQ(progress.TotalSteps(0), 0u);
  proto::StepReported report = Steps(1, 1);
  report.set_total_steps(70);
  progress.TakeSteps(report, seconds(1), kNow);
  EXPECT_EQ(progress.TotalSteps(0), 70u);
  EXPECT_EQ(progress.TotalSteps(50), 50u);
}

TEST(JobProgress, AStallIsReportedOnceAMinute) {
  JobProgress progress;
  const Instant start = InstantFromNanoseconds(1'000'000'000'000);
  EXPECT_FALSE(progress.ShouldReportStall(milliseconds(999), start));
  EXPECT_TRUE(progress.ShouldReportStall(seconds(1), start));
  EXPECT_FALSE(progress.ShouldReportStall(seconds(5), start + seconds(59)));
  EXPECT_TRUE(progress.ShouldReportStall(seconds(5), start + seconds(60)));
}

}  // namespace
}  // namespace longhaul::runtime::controller
