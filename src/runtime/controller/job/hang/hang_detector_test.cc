#include "runtime/controller/job/hang/hang_detector.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace longhaul::runtime::controller {
namespace {

using std::chrono::minutes;
using std::chrono::seconds;
using Action = HangDetector::Overdue::Action;

const Instant kStart = InstantFromNanoseconds(1'000'000'000'000);
const HangLimits kLimits{seconds(10), 3.0, Duration(0)};

TEST(HangDetector, PatienceIsTheFloorOrAMultipleOfTheSlowestReport) {
  HangDetector detector(kStart);
  EXPECT_EQ(detector.Patience(kLimits, false), seconds(10));
  EXPECT_EQ(detector.TakeReport(kStart + seconds(5)), seconds(5));
  EXPECT_EQ(detector.Patience(kLimits, false), seconds(15));
  EXPECT_EQ(detector.Patience(kLimits, true), minutes(10));
  detector.BeginAttempt();
  EXPECT_EQ(detector.Patience(kLimits, false), seconds(10));
}

TEST(HangDetector, HasLearnedAfterThreeTimesBetweenReports) {
  HangDetector detector(kStart);
  for (int report = 1; report <= 4; ++report) {
    EXPECT_FALSE(detector.has_learned()) << report;
    detector.TakeReport(kStart + seconds(report));
  }
  EXPECT_TRUE(detector.has_learned());
  detector.BeginAttempt();
  EXPECT_FALSE(detector.has_learned());
}

TEST(HangDetector, ASlowReportLosesWeight) {
  HangDetector detector(kStart);
  Instant now = kStart + seconds(100);
  detector.TakeReport(now);
  detector.TakeReport(now += seconds(1));
  EXPECT_EQ(detector.slowest_report(), seconds(99));
}

TEST(HangDetector, AReportBeforeTheLastOneTookNoTime) {
  HangDetector detector(kStart);
  detector.TakeReport(kStart + seconds(5));
  EXPECT_EQ(detector.TakeReport(kStart + seconds(3)), Duration(0));
  EXPECT_EQ(detector.last_progress(), kStart + seconds(5));
  detector.CountFromAtLeast(kStart + seconds(4));
  EXPECT_EQ(detector.last_progress(), kStart + seconds(5));
}

TEST(HangDetector, WorkersAreProbedFirstAndThenRestarted) {
  HangDetector detector(kStart);
  const auto first = detector.TakeOverdue(kLimits, kStart + seconds(10));
  EXPECT_EQ(first.action, Action::kProbe);
  EXPECT_TRUE(first.first);
  EXPECT_EQ(detector.TakeOverdue(kLimits, kStart + seconds(20)).action, Action::kRestart);
}

TEST(HangDetector, ARestartWaitsForItsLimit) {
  HangDetector detector(kStart);
  const HangLimits patient{seconds(60), 3.0, minutes(30)};
  for (int minute = 1; minute < 30; ++minute) {
    const auto overdue = detector.TakeOverdue(patient, kStart + minutes(minute));
    EXPECT_EQ(overdue.action, Action::kProbe);
    EXPECT_EQ(overdue.first, minute == 1);
  }
  EXPECT_EQ(detector.TakeOverdue(patient, kStart + minutes(30)).action, Action::kRestart);
}

TEST(HangDetector, AReportOrAWaitForgetsTheProbes) {
  HangDetector detector(kStart);
  detector.TakeOverdue(kLimits, kStart + seconds(10));
  detector.TakeReport(kStart + seconds(11));
  EXPECT_TRUE(detector.TakeOverdue(kLimits, kStart + seconds(40)).first);
  detector.ForgetProbes();
  EXPECT_TRUE(detector.TakeOverdue(kLimits, kStart + seconds(50)).first);
}

TEST(HangDetector, AWaitIsPartOfTheMessageUntilTheNextReport) {
  HangDetector detector(kStart);
  EXPECT_TRUE(detector.NoteWait("worker 1 waits"));
  EXPECT_FALSE(detector.NoteWait("worker 2 waits"));
  EXPECT_THAT(detector.TakeOverdue(kLimits, kStart + seconds(10)).silence,
              testing::HasSubstr(": worker 2 waits"));
  detector.TakeReport(kStart + seconds(12));
  EXPECT_THAT(detector.TakeOverdue(kLimits, kStart + seconds(30)).silence,
              testing::Not(testing::HasSubstr("waits")));
}

}  // namespace
}  // namespace longhaul::runtime::controller
