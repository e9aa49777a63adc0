#include "service/agent/isolation/job_isolation.h"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <thread>

#include "io/clock.h"
#include "io/process/process.h"
#include "io/process/process_table.h"
#include "io/process/process_tree.h"

namespace longhaul::service::job_isolation_test {
namespace {

constexpr Duration kPatience = std::chrono::seconds(20);  // of a test that fails
const AttemptId kAttempt{JobId("job-1"), 1};

proto::Job WithLimits(uint64_t processes, uint64_t memory, uint64_t log) {
  proto::Job job;
  job.mutable_limits()->set_processes(processes);
  job.mutable_limits()->set_memory_bytes(memory);
  job.mutable_limits()->set_log_bytes(log);
  return job;
}

TEST(JobLimits, AreThoseOfTheJobAndElseTheDefaults) {
  const struct {
    proto::Job job;
    uint32_t workers;
    JobLimits want;
  } kRows[] = {
      {proto::Job(), 1, {4096, 0, uint64_t{1} << 30}},  // of an older controller
      {WithLimits(0, 0, 0), 8, {8 * 4096, 0, uint64_t{1} << 30}},
      {WithLimits(100, 5 << 20, 1 << 20), 8, {100, 5 << 20, 1 << 20}},
  };
  for (const auto& row : kRows) {
    const JobLimits got = LimitsOf(row.job, row.workers);
    EXPECT_EQ(got.tasks, row.want.tasks);
    EXPECT_EQ(got.memory_bytes, row.want.memory_bytes);
    EXPECT_EQ(got.log_bytes, row.want.log_bytes);
  }
}

// Both implementations do the same, where control groups can be made.
class JobIsolationTest : public ::testing::TestWithParam<bool> {
 protected:
  void SetUp() override {
    if (!GetParam()) {
      isolation_ = MakeCountedIsolation("this is a test",
                                        [](const AttemptId&) { return std::vector<pid_t>(); });
      return;
    }
    io::CgroupPlaces places = io::OwnCgroupPlaces();
    places.memory.clear();  // that of this test stays as it is: the agent counts
    auto folder = io::CgroupFolder::Open(places, "isolation-test-" + std::to_string(getpid()));
    if (!folder.ok()) GTEST_SKIP() << folder.status();
    isolation_ = MakeGroupIsolation(*std::move(folder));
  }
  void TearDown() override {
    if (isolation_ == nullptr) return;
    EXPECT_TRUE(Await([this] {
      for (const pid_t process : isolation_->Kill(kAttempt)) (void)waitpid(process, nullptr, 0);
      return isolation_->End(kAttempt);
    }));
  }

  void Run(const std::string& script) {
    io::ProcessOptions options;
    options.argv = {"sh", "-c", script};
    options.environment = {{"PATH", "/usr/bin:/bin"}};
    options.groups = isolation_->Entrances(kAttempt);
    Result<io::Process> process = io::Start(options);
    ASSERT_TRUE(process.ok()) << process.status();
    isolation_->Add(kAttempt, process->pid, !options.groups.empty());
    worker_ = *std::move(process);
  }
  std::optional<ReachedLimit> AwaitLimit() {
    std::optional<ReachedLimit> reached;
    EXPECT_TRUE(Await([&] { return (reached = isolation_->Check(kAttempt)).has_value(); }));
    return reached;
  }
  template <typename Condition>
  static bool Await(Condition condition) {
    const Instant end = io::MonotonicNow() + kPatience;
    while (!condition()) {
      if (io::MonotonicNow() > end) return false;
      std::this_thread::sleep_for(std::chrono::milliseconds(2));
    }
    return true;
  }

  std::unique_ptr<JobIsolation> isolation_;
  io::Process worker_;
};

TEST_P(JobIsolationTest, NamesTheLimitOfProcessesAndEndsTheJob) {
  ASSERT_TRUE(isolation_->Begin(kAttempt, {16, 0, 0}).ok());
  // Many more, so that they show in the number of all tasks of a busy machine.
  Run("i=0; while [ $i -lt 200 ]; do sleep 600 & i=$((i+1)); done; wait");
  const auto reached = AwaitLimit();
  ASSERT_TRUE(reached.has_value());
  EXPECT_NE(reached->text.find("limit of 16 processes"), std::string::npos) << reached->text;
  EXPECT_TRUE(reached->ends_job);
}

TEST_P(JobIsolationTest, NamesTheLimitOfMemoryAndLetsTheJobRestart) {
  ASSERT_TRUE(isolation_->Begin(kAttempt, {0, 16 << 20, 0}).ok());
  Run("exec python3 -c 'import time; x = b\"1\" * (64 << 20); time.sleep(600)'");
  const auto reached = AwaitLimit();
  ASSERT_TRUE(reached.has_value());
  EXPECT_NE(reached->text.find("16.00 MiB of memory"), std::string::npos) << reached->text;
  EXPECT_FALSE(reached->ends_job);
}

// Killed one by one, some would have started others meanwhile, which nothing leads to any more.
TEST_P(JobIsolationTest, KillsWhatStartsProcessesWithoutEndAtOnce) {
  ASSERT_TRUE(isolation_->Begin(kAttempt, {0, 0, 0}).ok());
  const std::string mark = "JOB_ISOLATION_TEST=" + std::to_string(getpid());
  const auto marked = [&mark] {
    size_t count = 0;
    for (const io::ProcessRow& row : io::ListProcesses()) {
      count += io::StartedWith(row.process, mark) ? 1 : 0;
    }
    return count;
  };
  // Two such loops, each in a session of its own. They end by themselves.
  const std::string loop = "i=0; while [ $i -lt 500 ]; do setsid sleep 60 & i=$((i+1)); done; wait";
  const std::string start = "export " + mark + "; setsid sh -c '" + loop + "' & ";
  Run(start + start + "wait");
  ASSERT_TRUE(Await([&] { return marked() > 20; }));
  for (const pid_t process : isolation_->Kill(kAttempt)) (void)waitpid(process, nullptr, 0);
  EXPECT_TRUE(Await([&] { return marked() == 0; })) << marked();
}

TEST_P(JobIsolationTest, LeavesAnAttemptWithinItsLimitsAlone) {
  ASSERT_TRUE(isolation_->Begin(kAttempt, {16, uint64_t{1} << 40, 0}).ok());
  Run("sleep 600 & wait");
  for (int i = 0; i < 20; ++i) EXPECT_FALSE(isolation_->Check(kAttempt).has_value());
  EXPECT_FALSE(isolation_->Check({JobId("job-2"), 1}).has_value()) << "there is none";
}

TEST_P(JobIsolationTest, DescribesWhatEnforcesTheLimits) {
  const std::string text = isolation_->Description();
  EXPECT_NE(text.find(GetParam() ? "control groups (version" : "this is a test"), std::string::npos)
      << text;
  EXPECT_EQ(text.find('\n'), std::string::npos);
}

INSTANTIATE_TEST_SUITE_P(Both, JobIsolationTest, ::testing::Values(true, false),
                         [](const auto& instance) {
                           return instance.param ? "Groups" : "Counted";
                         });

}  // namespace
}  // namespace longhaul::service::job_isolation_test
