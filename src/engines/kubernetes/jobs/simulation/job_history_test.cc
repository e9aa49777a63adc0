// Random LonghaulJobs with faults: what the operator promises holds, and all jobs end.
//
// LONGHAUL_HISTORIES is the number of seeds of each kind, LONGHAUL_HISTORY_SEED the first one.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <string>

#include "engines/kubernetes/jobs/simulation/simulated_jobs.h"

namespace longhaul::engines::kubernetes {
namespace {

using std::chrono::hours;
using std::chrono::minutes;

uint64_t NumberFrom(const char* name, uint64_t standard) {
  const char* text = std::getenv(name);
  return text == nullptr ? standard : std::strtoull(text, nullptr, 10);
}

void Fill(SimulatedJobs& jobs, uint64_t seed, const JobFaults& faults) {
  Random rng(seed + 1'000'000);
  const uint32_t count = 1 + static_cast<uint32_t>(rng.Below(3));
  int nodes = 1;
  uint32_t most = 0;  // pods of a job
  for (uint32_t i = 0; i < count; ++i) {
    SimulatedJob job;
    job.name = "j" + std::to_string(i);
    job.step = 1 + static_cast<uint32_t>(rng.Below(4) == 0);
    job.minimum = job.step * (1 + static_cast<uint32_t>(rng.Below(3)));
    job.desired = job.minimum + job.step * static_cast<uint32_t>(rng.Below(2));
    job.maximum = job.desired + job.step * static_cast<uint32_t>(rng.Below(3));
    // Some train longer than what must not last (simulated_job_checks.cc).
    job.seconds = 60 + static_cast<double>(rng.Below(rng.Below(4) == 0 ? 1'500 : 240));
    job.fails = rng.Below(8) == 0;
    job.in_queue = faults.evictions;
    most = std::max(most, job.minimum + 2 * job.step + 1);
    // A user may scale it to `minimum` and two steps more.
    nodes += static_cast<int>(faults.users ? job.minimum + 2 * job.step : job.desired);
    jobs.AddJob(job);
  }
  jobs.AddNodes(nodes + static_cast<int>(rng.Below(4)));
  jobs.SetQuota(most);
  if (rng.Below(4) == 0) jobs.AddForeignPod("j0-worker-0-0", "j0", rng.Below(2) == 0);
}

struct History {
  int faults = 0;
  int grown = 0;
};

History RunSeed(uint64_t seed, const JobFaults& faults, std::string* log = nullptr) {
  SCOPED_TRACE("LONGHAUL_HISTORY_SEED=" + std::to_string(seed));
  SimulatedJobs jobs(seed, faults);
  Fill(jobs, seed, faults);
  jobs.FaultsUntil(minutes(6));
  const Status holds = jobs.Run(hours(3), [&jobs] { return jobs.AllFinished(); });
  if (log != nullptr) *log = jobs.log();
  EXPECT_TRUE(holds.ok()) << holds << "\n" << jobs.log();
  EXPECT_TRUE(!holds.ok() || jobs.AllFinished()) << "not all have finished\n" << jobs.log();
  return {jobs.faults(), jobs.grown()};
}

History RunAll(const JobFaults& faults) {
  const uint64_t histories = NumberFrom("LONGHAUL_HISTORIES", 3);
  const uint64_t first = NumberFrom("LONGHAUL_HISTORY_SEED", 1);
  const uint64_t most = NumberFrom("LONGHAUL_FAILURES", 1);
  History happened;
  uint64_t failures = 0;
  for (uint64_t seed = first; seed < first + histories && failures < most; ++seed) {
    const History history = RunSeed(seed, faults);
    happened.faults += history.faults;
    happened.grown += history.grown;
    failures += testing::Test::HasFailure() ? 1 : 0;
  }
  return happened;
}

TEST(JobHistory, WithoutFaultsAllJobsEnd) {
  const History history = RunAll({});
  EXPECT_EQ(history.faults, 0);
  EXPECT_GT(history.grown, 0);
}

TEST(JobHistory, WithRoomThatComesAndGoesAllJobsEnd) {
  JobFaults faults;
  faults.room = true;
  const History history = RunAll(faults);
  EXPECT_GT(history.faults, 0);
  EXPECT_GT(history.grown, 0);
}

TEST(JobHistory, TwoRunsOfASeedAreEqual) {
  JobFaults faults;
  faults.lost_messages = faults.refusals = faults.watches = faults.nodes = true;
  faults.deletions = faults.deaths = faults.silence = faults.operators = faults.users =
      faults.room = true;
  std::string first;
  std::string second;
  RunSeed(7, faults, &first);
  RunSeed(7, faults, &second);
  EXPECT_EQ(first, second);
}

TEST(JobHistory, WithLostMessagesAllJobsEnd) {
  JobFaults faults;
  faults.lost_messages = true;
  EXPECT_GT(RunAll(faults).faults, 0);
}

TEST(JobHistory, WithRefusalsAllJobsEnd) {
  JobFaults faults;
  faults.refusals = true;
  EXPECT_GT(RunAll(faults).faults, 0);
}

TEST(JobHistory, WithBrokenWatchesAllJobsEnd) {
  JobFaults faults;
  faults.watches = true;
  EXPECT_GT(RunAll(faults).faults, 0);
}

TEST(JobHistory, WithLostNodesAllJobsEnd) {
  JobFaults faults;
  faults.nodes = true;
  EXPECT_GT(RunAll(faults).faults, 0);
}

TEST(JobHistory, WithDeletedPodsAndDeadContainersAllJobsEnd) {
  JobFaults faults;
  faults.deletions = faults.deaths = true;
  EXPECT_GT(RunAll(faults).faults, 0);
}

TEST(JobHistory, WithoutReportsAllJobsEnd) {
  JobFaults faults;
  faults.silence = faults.deaths = true;
  EXPECT_GT(RunAll(faults).faults, 0);
}

TEST(JobHistory, WithReplacedOperatorsAllJobsEnd) {
  JobFaults faults;
  faults.operators = true;
  EXPECT_GT(RunAll(faults).faults, 0);
}

TEST(JobHistory, WithChangesByUsersAllJobsEnd) {
  JobFaults faults;
  faults.users = true;
  EXPECT_GT(RunAll(faults).faults, 0);
}

TEST(JobHistory, WithEvictionsFromTheirQueueAllJobsEnd) {
  JobFaults faults;
  faults.evictions = true;
  EXPECT_GT(RunAll(faults).faults, 0);
}

TEST(JobHistory, WithEvictionsAndUsersAndRefusalsAllJobsEnd) {
  JobFaults faults;
  faults.evictions = faults.users = faults.refusals = faults.lost_messages = true;
  EXPECT_GT(RunAll(faults).faults, 0);
}

TEST(JobHistory, WithEvictionsAndEveryFaultAllJobsEnd) {
  JobFaults faults;
  faults.lost_messages = faults.refusals = faults.watches = faults.nodes = true;
  faults.deletions = faults.deaths = faults.silence = faults.operators = faults.users =
      faults.room = true;
  faults.evictions = true;
  EXPECT_GT(RunAll(faults).faults, 0);
}

TEST(JobHistory, WithUsersAndReplacedOperatorsAllJobsEnd) {
  JobFaults faults;
  faults.users = faults.operators = faults.lost_messages = true;
  EXPECT_GT(RunAll(faults).faults, 0);
}

TEST(JobHistory, WithEveryFaultAllJobsEnd) {
  JobFaults faults;
  faults.lost_messages = faults.refusals = faults.watches = faults.nodes = true;
  faults.deletions = faults.deaths = faults.silence = faults.operators = faults.users =
      faults.room = true;
  EXPECT_GT(RunAll(faults).faults, 0);
}

}  // namespace
}  // namespace longhaul::engines::kubernetes
