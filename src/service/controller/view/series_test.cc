#include "service/controller/view/series.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <random>

namespace longhaul::service {
namespace {

TEST(Series, KeepsFirstSmallestLargestAndLastOfAPeriod) {
  Series series;
  const double kValues[] = {5, 1, 9, 4};
  for (int i = 0; i < 4; ++i) series.Add(i * 20, 10 + i, kValues[i]);
  ASSERT_EQ(series.buckets().size(), 1u);
  const Series::Bucket& bucket = series.buckets()[0];
  EXPECT_EQ(bucket.first, 5);
  EXPECT_EQ(bucket.min, 1);
  EXPECT_EQ(bucket.max, 9);
  EXPECT_EQ(bucket.last, 4);
  EXPECT_EQ(bucket.step, 13u);
}

TEST(Series, MarksAValueThatIsNotFinite) {
  Series series;
  series.Add(0, 1, std::nan(""));
  series.Add(10, 2, 3);
  series.Add(20, 3, std::numeric_limits<double>::infinity());
  ASSERT_EQ(series.buckets().size(), 1u);
  EXPECT_EQ(series.buckets()[0].not_finite, 2u);
  EXPECT_EQ(series.buckets()[0].first, 3);
  EXPECT_EQ(series.buckets()[0].last, 3);
}

// A single spike among a million steps is what a reader looks for.
TEST(Series, LosesNoExtremeOfAMillionStepsInBoundedMemory) {
  std::mt19937_64 rng(7);
  Series series;
  double largest = 0;
  uint64_t samples = 0;
  for (uint64_t step = 0; step < 1'000'000; ++step) {
    const double value = rng() % 5'000 == 0 ? 100.0 + static_cast<double>(rng() % 1000)
                                            : 1.0 / (1.0 + static_cast<double>(step));
    largest = std::max(largest, value);
    series.Add(static_cast<int64_t>(step) * 50, step, value);
    ASSERT_LE(series.buckets().size(), Series::kMostBuckets);
  }
  double kept = 0;
  for (size_t i = 0; i < series.buckets().size(); ++i) {
    const Series::Bucket& bucket = series.buckets()[i];
    kept = std::max(kept, bucket.max);
    samples += bucket.finite;
    EXPECT_LE(bucket.min, bucket.first);
    EXPECT_GE(bucket.max, bucket.last);
    if (i > 0) {
      EXPECT_GT(bucket.index, series.buckets()[i - 1].index);
    }
  }
  EXPECT_EQ(kept, largest);
  EXPECT_EQ(samples, 1'000'000u);
  EXPECT_GT(series.buckets().size(), Series::kMostBuckets / 2 - 1);
}

TEST(Series, CountsASampleOfAnEarlierTimeForTheLastPeriod) {
  Series series;
  series.Add(10'000, 1, 1);
  series.Add(-5, 2, 2);
  ASSERT_EQ(series.buckets().size(), 1u);
  EXPECT_EQ(series.buckets()[0].last, 2);
}

}  // namespace
}  // namespace longhaul::service
