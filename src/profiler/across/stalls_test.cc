// A stall is what stands out, not what a shared processor does all the time.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "profiler/across/suspects.h"

namespace longhaul::profiler {
namespace {

constexpr int64_t kMillisecond = 1'000'000;

// A rank that computes and waits for its host in turn, so long.
ProfiledJob JobOf(const std::vector<int64_t>& host_ns) {
  ProfiledJob job;
  RankSummary& rank = job.ranks.emplace_back();
  rank.metadata.rank = 4;
  int64_t now = 0;
  for (const int64_t length : host_ns) {
    rank.segments.push_back({now, now + kMillisecond, -1, Spent::kMatrixProduct});
    rank.segments.push_back({now + kMillisecond, now + kMillisecond + length, -1, Spent::kHost});
    now += kMillisecond + length;
  }
  rank.steps.push_back({"step 1", 0, now});
  return job;
}

std::vector<Suspect> StallsOf(const ProfiledJob& job) {
  const std::vector<RankTotals> totals(1);
  const Stages stages;
  return FindStalls({job, totals, stages, 0.2, 1});
}

// Measured: torch 1.13 on two cores under a load of 12, twenty pauses of 28 to 60 ms in 12 steps.
TEST(FindStalls, ManyPausesOfLikeLengthAreNone) {
  std::vector<int64_t> host(100, 16'000);
  for (const int64_t ms : {59, 58, 52, 46, 43, 60, 36}) host.push_back(ms * kMillisecond);
  EXPECT_TRUE(StallsOf(JobOf(host)).empty());
  host.push_back(500 * kMillisecond);
  const ProfiledJob job = JobOf(host);
  const std::vector<Suspect> found = StallsOf(job);
  ASSERT_EQ(found.size(), 1u);
  EXPECT_EQ(found[0].subject, "rank 4");
  EXPECT_THAT(found[0].evidence, testing::HasSubstr("in step 1 it once spent 500.000 ms on"));
}

TEST(FindStalls, TwoOfThemAreReported) {
  std::vector<int64_t> host(100, 16'000);
  host.insert(host.end(), {500 * kMillisecond, 300 * kMillisecond});
  const ProfiledJob job = JobOf(host);
  EXPECT_EQ(StallsOf(job).size(), 2u);
}

}  // namespace
}  // namespace longhaul::profiler
