// Limits of a job that the agents report as reached: what becomes of the job.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <csignal>

#include "runtime/controller/cluster_fixture.h"

namespace longhaul::runtime {
namespace {

using namespace controller_testing;
using testing::HasSubstr;

class LimitsTest : public ::testing::Test {
 protected:
  LimitsTest() {
    cluster_.Join("node-1");
    cluster_.Join("node-2");
    cluster_.Submit(TwoByTwo());
    cluster_.Start();
    cluster_.Steps(1, 3);
  }
  // The agent of node-2 has killed rank 2 with this reason.
  void Reach(const std::string& limit, bool ends_job) {
    proto::WorkerExited exited;
    exited.set_job_id("gpt-1");
    exited.set_attempt(cluster_.Job().attempt());
    exited.set_rank(2);
    exited.set_exit_code(-1);
    exited.set_signal(SIGKILL);
    exited.set_reached_limit(limit);
    exited.set_ends_job(ends_job);
    cluster_.Report("node-2", &proto::Event::mutable_worker_exited, exited);
  }
  std::vector<std::string> Warnings(const proto::LogLimited& limited, const std::string& node) {
    proto::Event event;
    *event.mutable_log_limited() = limited;
    std::vector<std::string> texts;
    for (const proto::Notification& notification : cluster_.Feed(event, true, node).notifications) {
      texts.push_back(notification.message().text());
    }
    return texts;
  }

  Cluster cluster_;
};

TEST_F(LimitsTest, OneThatARestartReachesAgainEndsTheJobWithItsCause) {
  const uint64_t attempt = cluster_.Job().attempt();
  Reach("the job has reached its limit of 64 processes", true);
  const proto::KillWorkers kill =
      cluster_.Last("node-1", proto::Command::kKillWorkers).kill_workers();
  EXPECT_EQ(kill.attempt(), attempt);
  for (const char* node : {"node-1", "node-2"}) {
    proto::AttemptClosed closed;
    closed.set_job_id("gpt-1");
    closed.set_attempt(attempt);
    cluster_.Report(node, &proto::Event::mutable_attempt_closed, closed);
  }
  const proto::JobStatus job = cluster_.Job();
  EXPECT_EQ(job.state(), proto::FAILED);
  EXPECT_EQ(job.attempt(), attempt) << "it was not restarted";
  EXPECT_THAT(job.reason(), HasSubstr("limit of 64 processes"));
  EXPECT_THAT(job.reason(), HasSubstr("node-2"));
}

// Of a worker that was killed from outside the class would be "process", which never counts against
// the program.
TEST_F(LimitsTest, AnotherIsAnErrorOfTheProgramAndTheJobIsRestarted) {
  const uint64_t attempt = cluster_.Job().attempt();
  Reach("the job has reached its limit of 1 GiB of memory", false);
  const proto::JobStatus job = cluster_.Job();
  ASSERT_EQ(job.faults_size(), 1);
  EXPECT_EQ(job.faults(0).class_name(), "error");
  EXPECT_THAT(job.faults(0).what(), HasSubstr("limit of 1 GiB of memory"));
  EXPECT_EQ(job.attempt(), attempt + 1) << "the cause is certain: nothing else is awaited";
}

TEST_F(LimitsTest, ALogThatIsTooLongIsAWarningWithWorkerNodeAndLimit) {
  proto::LogLimited limited;
  limited.set_job_id("gpt-1");
  limited.set_attempt(cluster_.Job().attempt());
  limited.set_rank(3);
  limited.set_limit_bytes(uint64_t{1} << 30);
  const auto texts = Warnings(limited, "node-2");
  ASSERT_EQ(texts.size(), 1u);
  EXPECT_EQ(
      texts[0],
      "the log of worker 3 on node-2 has more than 1.00 GiB (limits.log_size); the agent frees "
      "its middle and keeps the beginning and the newest part");
  EXPECT_TRUE(Warnings(limited, "node-9").empty()) << "it has no worker of the job";
  limited.set_error("not supported");
  EXPECT_THAT(Warnings(limited, "node-2").at(0),
              HasSubstr("cannot be limited there: not supported"));
  limited.set_job_id("gpt-2");
  EXPECT_TRUE(Warnings(limited, "node-2").empty());
}

}  // namespace
}  // namespace longhaul::runtime
