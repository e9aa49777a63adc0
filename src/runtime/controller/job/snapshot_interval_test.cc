#include "runtime/controller/job/snapshot_interval.h"

#include <gtest/gtest.h>

namespace longhaul::runtime {
namespace {

// Worked by hand. 2 s and 100 s: 20 (1 + 0.1 / 3 + 0.01 / 9) - 2. 5 minutes and a day:
// 7,200 (1 + 1 / 72 + 1 / 5,184) - 300.
TEST(SnapshotInterval, DalysOptimumAgreesWithTheTableWorkedByHand) {
  EXPECT_NEAR(DalyInterval(Seconds(2), Seconds(100)).count(), 18.6889, 1e-4);
  EXPECT_NEAR(DalyInterval(Seconds(0.05), Seconds(10'000)).count(), 31.5894, 1e-4);
  EXPECT_NEAR(DalyInterval(Seconds(300), Seconds(86'400)).count(), 7'001.389, 1e-3);
  EXPECT_EQ(DalyInterval(Seconds(10), Seconds(5)), Seconds(5));
  EXPECT_EQ(DalyInterval(Seconds(10), Seconds(4)), Seconds(4));
}

TEST(SnapshotInterval, IsNotShorterThanACopyToAnotherNodeTakes) {
  SnapshotInterval interval(0, Seconds(10'000));
  for (int i = 0; i < 3; ++i) interval.ObserveSnapshot(Seconds(0.05));
  interval.ObserveStep(Seconds(6));
  for (int i = 0; i < 3; ++i) interval.ObserveCopy(Seconds(120));
  interval.ObserveCopy(Seconds(9'000));  // one slow copy changes nothing
  EXPECT_TRUE(interval.Update());
  EXPECT_EQ(interval.steps(), 20u);
  EXPECT_NE(interval.reason().find("copy"), std::string::npos) << interval.reason();
  for (int i = 0; i < 5; ++i) interval.ObserveCopy(Seconds(3));
  EXPECT_TRUE(interval.Update());
  EXPECT_EQ(interval.steps(), 5u);
  EXPECT_EQ(interval.reason().find("copy"), std::string::npos) << interval.reason();
}

TEST(SnapshotInterval, IsTheOptimumOfWhatWasMeasured) {
  // 31.6 s, of 6 s steps: 5.
  SnapshotInterval interval(0, Seconds(10'000));
  for (int i = 0; i < 3; ++i) interval.ObserveSnapshot(Seconds(0.05));
  interval.ObserveStep(Seconds(6));
  EXPECT_TRUE(interval.Update());
  EXPECT_EQ(interval.steps(), 5u);
  EXPECT_EQ(interval.reason(),
            "it stops training for 50 ms, and a failure is expected every 2 h 46 min: so one every "
            "31.6 s (a step takes 6 s)");
}

TEST(SnapshotInterval, StaysPutUntilSomethingIsMeasured) {
  SnapshotInterval interval(0, Seconds(3600));
  EXPECT_FALSE(interval.Update());
  EXPECT_EQ(interval.steps(), SnapshotInterval::kFirstSteps);
  interval.ObserveSnapshot(Seconds(0.01));
  EXPECT_FALSE(interval.Update()) << "no step has been timed";
}

TEST(SnapshotInterval, FailuresBringSnapshotsCloserTogether) {
  SnapshotInterval interval(0, Seconds(3600));
  for (int i = 0; i < 3; ++i) interval.ObserveSnapshot(Seconds(0.01));
  interval.ObserveStep(Seconds(0.1));
  interval.Update();
  const uint64_t calm = interval.steps();
  for (int i = 0; i < 15; ++i) interval.ObserveFailure();
  EXPECT_TRUE(interval.Update());
  EXPECT_NEAR(static_cast<double>(interval.steps()), static_cast<double>(calm) / 4, 1.0);
}

// The best interval goes with the root of a snapshot's cost: 1.41 and 1.73 times here.
TEST(SnapshotInterval, ChangesOnlyWhenTheBestHasMovedByHalf) {
  SnapshotInterval interval(0, Seconds(10'000));
  for (int i = 0; i < 3; ++i) interval.ObserveSnapshot(Seconds(0.05));
  interval.ObserveStep(Seconds(0.1));
  interval.Update();
  const uint64_t steps = interval.steps();
  for (int i = 0; i < 5; ++i) interval.ObserveSnapshot(Seconds(0.10));
  EXPECT_FALSE(interval.Update());
  EXPECT_EQ(interval.steps(), steps);
  for (int i = 0; i < 5; ++i) interval.ObserveSnapshot(Seconds(0.15));
  EXPECT_TRUE(interval.Update());
  EXPECT_GT(interval.steps(), steps);
}

TEST(SnapshotInterval, OneSlowSnapshotChangesNothing) {
  SnapshotInterval interval(0, Seconds(10'000));
  for (int i = 0; i < 3; ++i) interval.ObserveSnapshot(Seconds(0.05));
  interval.ObserveStep(Seconds(6));
  interval.Update();
  interval.ObserveSnapshot(Seconds(50));
  EXPECT_FALSE(interval.Update());
  EXPECT_NEAR(interval.mean_blocked().count(), 50.15 / 4, 1e-9);
}

TEST(SnapshotInterval, AFixedOneStaysFixed) {
  SnapshotInterval interval(7, Seconds(3600));
  interval.ObserveSnapshot(Seconds(1));
  interval.ObserveStep(Seconds(1));
  EXPECT_FALSE(interval.Update());
  EXPECT_EQ(interval.steps(), 7u);
}

}  // namespace
}  // namespace longhaul::runtime
