#include "runtime/controller/job/rank_work.h"

#include <gtest/gtest.h>

#include <vector>

namespace longhaul::runtime::controller {
namespace {

proto::StepReported ReportOf(const std::vector<uint32_t>& work_us) {
  proto::StepReported report;
  for (const uint32_t each : work_us) report.add_rank_work_us(each);
  return report;
}

std::vector<uint32_t> WorkIn(const proto::RankWork& entry) {
  return {entry.work_us().begin(), entry.work_us().end()};
}

TEST(RankWork, HasTheMeanOfEachRankSinceTheLastEntry) {
  RankWork work;
  work.BeginAttempt(2, 2);
  EXPECT_FALSE(work.has_news());
  work.Take(0, ReportOf({100, 300}));
  work.Take(0, ReportOf({200, 300}));
  work.Take(1, ReportOf({400, 0}));  // rank 3 has not reported yet
  EXPECT_TRUE(work.has_news());
  const proto::RankWork entry = work.TakeEntry();
  EXPECT_EQ(entry.ranks_per_group(), 1u);
  EXPECT_EQ(WorkIn(entry), (std::vector<uint32_t>{150, 300, 400, 0}));
  EXPECT_FALSE(work.has_news());
  work.Take(1, ReportOf({0, 500}));
  EXPECT_EQ(WorkIn(work.TakeEntry()), (std::vector<uint32_t>{0, 0, 0, 500}));
}

TEST(RankWork, LeavesOutReportsThatAreNotOfTheNodesRanks) {
  RankWork work;
  work.BeginAttempt(2, 2);
  work.Take(0, ReportOf({100}));
  work.Take(0, ReportOf({100, 100, 100}));
  work.Take(2, ReportOf({100, 100}));
  EXPECT_FALSE(work.has_news());
}

// 2,048 nodes of 8 ranks: 128 groups of 16 nodes. Rank 8,004 is the slowest of group 62.
TEST(RankWork, ShowsTheSlowestRankOfEachGroupOfALargeJob) {
  RankWork work;
  work.BeginAttempt(2'048, 8);
  for (uint32_t node = 0; node < 2'048; ++node) {
    std::vector<uint32_t> work_us(8, 1'000);
    if (node == 1'000) work_us[4] = 1'180;
    work.Take(node, ReportOf(work_us));
  }
  const proto::RankWork entry = work.TakeEntry();
  EXPECT_EQ(entry.ranks_per_group(), 128u);
  ASSERT_EQ(entry.work_us_size(), 128);
  EXPECT_EQ(entry.work_us(62), 1'180u);
  EXPECT_EQ(entry.slowest(62), 8'004u);
  EXPECT_EQ(entry.work_us(61), 1'000u);
  EXPECT_LT(entry.ByteSizeLong(), 600u);
}

}  // namespace
}  // namespace longhaul::runtime::controller
