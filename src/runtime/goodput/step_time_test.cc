#include "runtime/goodput/step_time.h"

#include <gtest/gtest.h>

#include "base/random.h"

namespace longhaul::runtime {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

StepTime Steady(Duration step, size_t steps = StepTime::kWindow) {
  StepTime time;
  for (size_t i = 0; i < steps; ++i) time.Observe(step);
  return time;
}

TEST(StepTime, AStopIsAStallAndTheTypicalStepIsNot) {
  const StepTime time = Steady(milliseconds(200));
  EXPECT_EQ(time.Stall(milliseconds(5200), 1), seconds(5));
  EXPECT_EQ(time.Stall(milliseconds(200), 1), Duration(0));
}

// The limits of 200 ms steps without noise: half a step, which is the floor of 100 ms too; of ten
// such steps in one report, half a step times the root of ten, 316 ms.
TEST(StepTime, AgreesWithTheTableWorkedByHand) {
  const struct {
    Duration step;
    Duration time;
    uint64_t steps;
    Duration stall;
  } kRows[] = {
      {milliseconds(200), milliseconds(300), 1, Duration(0)},
      {milliseconds(200), milliseconds(301), 1, milliseconds(101)},
      {milliseconds(200), milliseconds(2300), 10, Duration(0)},
      {milliseconds(200), milliseconds(2330), 10, milliseconds(330)},
      {milliseconds(1), milliseconds(90), 1, Duration(0)},  // the floor
      {milliseconds(1), milliseconds(110), 1, milliseconds(109)},
      {seconds(6), milliseconds(8900), 1, Duration(0)},  // half a step
      {seconds(6), milliseconds(9100), 1, milliseconds(3100)},
  };
  for (const auto& row : kRows) {
    const StepTime time = Steady(row.step);
    EXPECT_EQ(time.Stall(row.time, row.steps), row.stall)
        << ToString(row.time) << " for " << row.steps << " steps of " << ToString(row.step);
  }
}

TEST(StepTime, JudgesNothingBeforeItHasSeenEnough) {
  EXPECT_EQ(StepTime().Stall(seconds(100), 1), Duration(0));
  EXPECT_EQ(Steady(milliseconds(10), StepTime::kLeast - 1).Stall(seconds(9), 1), Duration(0));
  EXPECT_GT(Steady(milliseconds(10), StepTime::kLeast).Stall(seconds(9), 1), Duration(0));
}

// Steps of 50 to 150 ms: the median absolute deviation is about 25 ms, its ninefold 225 ms.
TEST(StepTime, StepsThatDifferAlwaysAreNoStalls) {
  for (uint64_t seed = 1; seed <= 50; ++seed) {
    Random random(seed);
    StepTime time;
    for (int i = 0; i < 200; ++i) {
      const Duration step = milliseconds(50 + static_cast<int64_t>(random.Below(101)));
      EXPECT_EQ(time.Stall(step, 1), Duration(0)) << "seed " << seed << ", step " << i;
      time.Observe(step);
    }
  }
}

TEST(StepTime, ASlowDownThatLastsBecomesTheNormalAfterHalfAWindow) {
  StepTime time = Steady(milliseconds(200));
  size_t stalled = 0;
  for (int i = 0; i < 100; ++i) {
    stalled += time.Stall(seconds(1), 1) > Duration(0);
    time.Observe(seconds(1));
  }
  EXPECT_LE(stalled, StepTime::kWindow / 2 + 1);
  EXPECT_GE(stalled, StepTime::kWindow / 4) << "a short one is a stall";
  EXPECT_EQ(time.typical(), seconds(1));
}

TEST(StepTime, StopsThatComeBackEveryFourthStepStayStalls) {
  StepTime time = Steady(milliseconds(100));
  for (int i = 0; i < 400; ++i) {
    const Duration step = i % 4 == 0 ? seconds(2) : milliseconds(100);
    EXPECT_EQ(time.Stall(step, 1), i % 4 == 0 ? milliseconds(1900) : Duration(0)) << i;
    time.Observe(step);
  }
}

}  // namespace
}  // namespace longhaul::runtime
