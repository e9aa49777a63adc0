#include "service/controller/view/rank_map.h"

#include <gtest/gtest.h>

#include <vector>

namespace longhaul::service {
namespace {

proto::RankWork EntryOf(const std::vector<uint32_t>& work_us, uint32_t ranks_per_group = 1) {
  proto::RankWork entry;
  entry.set_ranks_per_group(ranks_per_group);
  for (size_t i = 0; i < work_us.size(); ++i) {
    entry.add_work_us(work_us[i]);
    entry.add_slowest(static_cast<uint32_t>(i) * ranks_per_group);
  }
  return entry;
}

// Fiftieths of the median, 2,000 us: worked by hand.
TEST(RankMap, ShowsEachRankRelativeToTheMedianOfItsMoment) {
  RankMap map;
  map.Take(3'200, EntryOf({2'000, 1'000, 3'000, 0, 90'000'000}));
  ASSERT_EQ(map.columns().size(), 1u);
  EXPECT_EQ(map.columns()[0].index, 3);
  EXPECT_EQ(map.columns()[0].values, (std::vector<uint8_t>{50, 25, 75, 0, 255}));
  EXPECT_EQ(map.median_us(), 2'000u);
  map.Take(4'000, EntryOf({1'000, 1'500}));
  EXPECT_EQ(map.columns().back().values, (std::vector<uint8_t>{50, 75})) << "the lower of two";
}

TEST(RankMap, KeepsAShortSlowDownOfARankInADaysLongRun) {
  RankMap map;
  for (int64_t minute = 0; minute < 7 * 24 * 60; ++minute) {
    map.Take(minute * 60'000, EntryOf({1'000, minute == 5'000 ? 2'000u : 1'000u, 1'000}));
  }
  EXPECT_LE(map.columns().size(), RankMap::kMostPeriods);
  EXPECT_GT(map.columns().size(), RankMap::kMostPeriods / 2 - 1);
  int slow = 0;
  for (const RankMap::Column& column : map.columns()) {
    if (column.values[1] != 100) continue;
    ++slow;
    EXPECT_EQ(column.index, 5'000 * 60'000 / map.width_ms());
  }
  EXPECT_EQ(slow, 1);
}

TEST(RankMap, BeginsAnewWhenTheGroupsChange) {
  RankMap map;
  map.Take(0, EntryOf({1'000, 1'000}));
  map.Take(1'000, EntryOf({1'000, 1'000, 1'000}));
  ASSERT_EQ(map.columns().size(), 1u);
  EXPECT_EQ(map.columns()[0].values.size(), 3u);
  map.Take(2'000, EntryOf({1'000, 1'000, 1'000}, 8));
  EXPECT_EQ(map.columns().size(), 1u);
}

TEST(RankMap, LeavesOutWhatNoControllerWrites) {
  RankMap map;
  map.Take(0, EntryOf({}));
  map.Take(0, EntryOf({0, 0}));
  map.Take(0, EntryOf(std::vector<uint32_t>(513, 1)));
  proto::RankWork uneven = EntryOf({1, 2});
  uneven.add_slowest(1);
  map.Take(0, uneven);
  EXPECT_TRUE(map.columns().empty());
  map.Take(-5, EntryOf({4'294'967'295u, 1}));
  EXPECT_EQ(map.columns()[0].values, (std::vector<uint8_t>{255, 50}));
}

}  // namespace
}  // namespace longhaul::service
