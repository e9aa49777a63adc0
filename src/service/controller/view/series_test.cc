#include "service/controller/view/series.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
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
  constexpr int64_t kStepMs = 50;
  std::mt19937_64 rng(7);
  Series series;
  std::map<int64_t, double> spikes;  // by time
  for (int64_t step = 0; step < 1'000'000; ++step) {
    double value = 1.0 / static_cast<double>(1 + step);
    if (rng() % 5'000 == 0) {
      value = spikes[step * kStepMs] = 100.0 + static_cast<double>(rng() % 1000);
    }
    series.Add(step * kStepMs, static_cast<uint64_t>(step), value);
    ASSERT_LE(series.buckets().size(), Series::kMostBuckets);
  }
  EXPECT_GT(series.buckets().size(), Series::kMostBuckets / 2 - 1);
  EXPECT_GT(spikes.size(), 100u);
  uint64_t samples = 0;
  for (const Series::Bucket& bucket : series.buckets()) {
    samples += bucket.finite;
    const auto from = spikes.lower_bound(bucket.index * series.width_ms());
    const auto to = spikes.lower_bound((bucket.index + 1) * series.width_ms());
    double largest = bucket.first;
    for (auto spike = from; spike != to; ++spike) largest = std::max(largest, spike->second);
    EXPECT_EQ(bucket.max, largest) << "period " << bucket.index;
    EXPECT_LE(bucket.min, bucket.last);
  }
  EXPECT_EQ(samples, 1'000'000u);
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
