#include "profiler/across/profiled_job.h"

#include <gtest/gtest.h>

#include <string>

namespace longhaul::profiler::profiled_job_test {
namespace {

constexpr int64_t kMs = 1'000'000;

// A rank of two with calls of one group.
RankSummary Rank(int64_t rank, std::vector<Collective> calls) {
  RankSummary summary;
  summary.metadata.rank = rank;
  summary.groups.push_back({"pair", "", {0, 1}, 2});
  summary.collectives = std::move(calls);
  return summary;
}

Collective Sum(int64_t start_ns, int64_t end_ns, int64_t launch_ns = kNotLaunched) {
  Collective call;
  call.start_ns = start_ns;
  call.end_ns = end_ns;
  call.launch_ns = launch_ns;
  call.bytes = call.elements = 64;
  call.kind = CollectiveKind::kAllReduce;
  return call;
}

ProfiledJob Assemble(std::vector<Collective> first, std::vector<Collective> second) {
  std::vector<RankSummary> ranks;
  ranks.push_back(Rank(0, std::move(first)));
  ranks.push_back(Rank(1, std::move(second)));
  JobOptions options;
  options.ranks_per_host = 1;
  return AssembleJob(std::move(ranks), options).value();
}

// Rank 1's second call, on a stream of its own, begins before its first.
TEST(ProfiledJob, MatchesCallsOfAPairByTheirLaunchesWhereTheyBeginInAnotherOrder) {
  const ProfiledJob job = Assemble({Sum(1 * kMs, 4 * kMs, 10), Sum(2 * kMs, 3 * kMs, 20)},
                                   {Sum(1 * kMs, 3 * kMs, 20), Sum(2 * kMs, 4 * kMs, 10)});
  ASSERT_EQ(job.matched, 4u);
  EXPECT_EQ(job.instance_of[0][0], job.instance_of[1][1]);
  EXPECT_EQ(job.instance_of[0][1], job.instance_of[1][0]);
}

TEST(ProfiledJob, MatchesCallsByTheirBeginsWhereALaunchIsMissing) {
  const ProfiledJob job = Assemble({Sum(1 * kMs, 4 * kMs, 10), Sum(2 * kMs, 5 * kMs, 20)},
                                   {Sum(1 * kMs, 4 * kMs, 10), Sum(2 * kMs, 5 * kMs)});
  ASSERT_EQ(job.matched, 4u);
  EXPECT_EQ(job.instance_of[0][0], job.instance_of[1][0]);
  EXPECT_EQ(job.instance_of[0][1], job.instance_of[1][1]);
}

// A damaged time makes the second host's clock run twice as fast, by its calls: no clock does, and
// put right by that its time would stand still or go back.
TEST(ProfiledJob, NoClockIsTakenToRunTwiceAsFast) {
  std::vector<Collective> first, second;
  for (int i = 0; i < 4; ++i) {
    first.push_back(Sum(i * 10 * kMs, (i * 10 + 1) * kMs));
    second.push_back(Sum(i * 30 * kMs, (i * 30 + 1) * kMs));
  }
  const ProfiledJob job = Assemble(std::move(first), std::move(second));
  ASSERT_EQ(job.matched, 8u);
  ASSERT_EQ(job.clocks.hosts.size(), 2u);
  EXPECT_EQ(job.clocks.hosts[1].drift_ppm, 0);
  for (const Collective& call : job.ranks[1].collectives) {
    EXPECT_EQ(call.end_ns - call.start_ns, kMs);
  }
  ASSERT_FALSE(job.warnings.empty());
  EXPECT_NE(job.warnings.back().find("can't be aligned well"), std::string::npos);
}

}  // namespace
}  // namespace longhaul::profiler::profiled_job_test
