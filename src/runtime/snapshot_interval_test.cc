#include "runtime/snapshot_interval.h"

#include <gtest/gtest.h>

namespace longhaul::runtime {
namespace {

TEST(SnapshotInterval, IsYoungsOptimumOfWhatWasMeasured) {
  // sqrt(2 x 0.05 s x 10,000 s) = 31.6 s, of 6 s steps: 5.
  SnapshotInterval interval(0, Seconds(10'000));
  for (int i = 0; i < 3; ++i) interval.ObserveSnapshot(Seconds(0.05));
  interval.ObserveStep(Seconds(6));
  EXPECT_TRUE(interval.Update());
  EXPECT_EQ(interval.steps(), 5u);
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
