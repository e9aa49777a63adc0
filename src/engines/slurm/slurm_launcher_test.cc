#include "engines/slurm/slurm_launcher.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <csignal>
#include <mutex>
#include <set>

#include "engines/slurm/slurm_fixture.h"
#include "io/event_loop.h"
#include "service/http/http_server.h"

namespace longhaul::engines::slurm {
namespace {

using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

std::atomic<bool> signalled = false;

// The run's controller, as far as the launcher calls it.
class FakeController final : public service::HttpHandler {
 public:
  std::optional<service::HttpAnswer> Admit(const service::HttpRequest&) override { return {}; }
  service::HttpAnswer Handle(const service::HttpRequest& request) override {
    const std::lock_guard lock(mutex_);
    calls_.push_back(request.method + " " + request.path);
    service::HttpAnswer answer;
    if (request.method == "GET") {
      answer.body = std::string(R"({"nodes":[{"name":"n2","jobs":[)") + (busy_ ? "1" : "") + "]}]}";
    } else {
      answer.body = "{}";
    }
    return answer;
  }
  service::HttpAnswer Refuse(const service::HttpRefusal&, const std::string&) override {
    return {};
  }
  void SetBusy() { busy_ = true; }  // before the first call
  std::vector<std::string> calls() {
    const std::lock_guard lock(mutex_);
    return calls_;
  }

 private:
  std::mutex mutex_;
  std::vector<std::string> calls_;
  bool busy_ = false;  // n2
};

class SlurmLauncherTest : public ::testing::Test {
 protected:
  SlurmLauncherTest() {
    before_ = std::signal(SIGTERM, [](int) { signalled = true; });
    signalled = false;
    slurm_.Write("jobs", "1|RUNNING|n1|None\n");
    size_.parts = {2};
    size_.usual = size_.maximum = 2;
  }
  ~SlurmLauncherTest() override {
    launcher_.reset();
    std::signal(SIGTERM, before_);
  }

  void Begin(Duration start_limit = std::chrono::minutes(1)) {
    LauncherOptions options;
    options.batch.name = "test";
    options.batch.run_directory = slurm_.run();
    options.batch.program = "longhaul";
    options.batch.size = size_;
    options.batch.start_limit = start_limit;
    options.first_job = "1";
    options.node = "n1";
    options.address = "127.0.0.1";
    options.poll_period = std::chrono::milliseconds(1);
    options.unused_limit = unused_limit_;
    launcher_ = std::make_unique<SlurmLauncher>(options);
    ASSERT_TRUE(launcher_->Prepare(slurm_.run() + "/cluster").ok());
    service::Endpoint endpoint;
    endpoint.rest = "http://127.0.0.1:" + std::to_string(server_->port());
    ASSERT_TRUE(launcher_->Command(endpoint).ok());
    launcher_->Begin(*loop_, [this](const std::string& line) { shown_ += line + "\n"; });
  }
  void RunFor(size_t queries) {
    const size_t end = slurm_.Queries().size() + queries;
    Until([&] { return slurm_.Queries().size() >= end; });
  }
  // Bounded, so that a test fails instead of running on.
  void Until(const std::function<bool()>& done) {
    for (int i = 0; i < 500 && !done(); ++i) loop_->RunOnce(std::chrono::milliseconds(5));
    EXPECT_TRUE(done()) << shown_;
  }
  std::string FirstCancelled() {
    const std::vector<std::string> calls = slurm_.Calls("scancel");
    return calls.empty() ? "" : calls[0];
  }

  SlurmPrograms slurm_;
  FakeController controller_;
  const std::unique_ptr<service::HttpServer> server_ =
      *service::HttpServer::Start("127.0.0.1", 0, {}, controller_);
  const std::unique_ptr<io::EventLoop> loop_ = *io::EventLoop::Create();
  RunSize size_;
  Duration unused_limit_ = kUnusedLimit;
  std::unique_ptr<SlurmLauncher> launcher_;
  std::string shown_;
  void (*before_)(int) = nullptr;
};

TEST_F(SlurmLauncherTest, GivesItsAgentsMoreTimeToJoinThanThoseOfOneMachineGet) {
  size_.parts = {1};
  size_.usual = size_.maximum = 1;
  Begin();
  ASSERT_FALSE(launcher_->awaited_agents().has_value());
  EXPECT_GE(launcher_->agents_limit(), 5 * frontend::kUsualAgentsLimit);
}

TEST_F(SlurmLauncherTest, AJobThatIsBeingSubmittedHasNotEnded) {
  slurm_.Write("hold", "");
  Begin();
  Until([&] { return !slurm_.Calls("sbatch").empty(); });
  for (int i = 0; i < 20; ++i) loop_->RunOnce(std::chrono::milliseconds(5));
  slurm_.Remove("hold");
  Until([&] { return shown_.find("asked Slurm for a node in job 7") != shown_.npos; });
  RunFor(3);
  EXPECT_THAT(slurm_.Queries().back(), HasSubstr("--jobs=7,1 "));
  launcher_->End();
  EXPECT_THAT(slurm_.Calls("scancel"), ElementsAre("scancel --quiet 7"));
}

TEST_F(SlurmLauncherTest, CancelsAtItsEndAJobWhoseNumberItHasNotSeen) {
  slurm_.Write("hold", "");
  Begin();
  Until([&] { return !slurm_.Calls("sbatch").empty(); });
  slurm_.Write("mine", "JOBID|STATE\n7|PENDING||None|1|longhaul part-1 " + slurm_.run() + "\n");
  slurm_.Remove("hold");
  launcher_->End();
  EXPECT_EQ(FirstCancelled(), "scancel --quiet 7");
}

TEST_F(SlurmLauncherTest, CancelsTheFurtherJobsOfAnEarlierStart) {
  slurm_.Write("mine", "JOBID|STATE\n1|RUNNING|n1|None|1|longhaul first " + slurm_.run() +
                           "\n5|RUNNING|n5|None|1|longhaul part-1 " + slurm_.run() +
                           "\n6|RUNNING|n6|None|1|longhaul growth /another/run\n");
  Begin();
  RunFor(2);
  EXPECT_THAT(slurm_.Calls("scancel"), ElementsAre("scancel --quiet 5")) << "once";
}

TEST_F(SlurmLauncherTest, TriesAgainToCancelTheFurtherJobsOfAnEarlierStart) {
  slurm_.Write("mine", "JOBID|STATE\n5|RUNNING|n5|None|1|longhaul part-1 " + slurm_.run() + "\n");
  slurm_.Write("refuse", "");
  Begin();
  Until([&] { return slurm_.Calls("scancel").size() >= 2; });
  EXPECT_THAT(shown_, HasSubstr("Slurm does not answer: scancel did not cancel job 5"));
  EXPECT_THAT(slurm_.Calls("sbatch"), IsEmpty()) << "the earlier start's jobs may have its nodes";
  slurm_.Remove("refuse");
  Until([&] { return !slurm_.Calls("sbatch").empty(); });
  EXPECT_THAT(shown_, HasSubstr("Slurm answers again"));
}

TEST_F(SlurmLauncherTest, ShowsAtItsEndThatJobsAreNotCancelled) {
  Begin();
  Until([&] { return shown_.find("asked Slurm for a node in job 7") != shown_.npos; });
  slurm_.Write("refuse", "");
  launcher_->End();
  EXPECT_THAT(shown_, HasSubstr("scancel did not cancel job 7, for the reason above"));
}

TEST_F(SlurmLauncherTest, ARunWhosePartStaysPendingEndsWithTheReason) {
  Begin(std::chrono::milliseconds(1));
  Until([] { return signalled.load(); });
  EXPECT_THAT(shown_, HasSubstr("(--start-limit)"));
}

TEST_F(SlurmLauncherTest, ARunThatHasItsPartsDoesNotEnd) {
  slurm_.Write("jobs", "1|RUNNING|n[1-2]|None\n");
  Begin(std::chrono::milliseconds(1));
  RunFor(5);
  EXPECT_FALSE(signalled);
  EXPECT_THAT(slurm_.Calls("sbatch"), IsEmpty());
}

TEST_F(SlurmLauncherTest, DrainsTheNodesOfAJobBeforeItGivesItBack) {
  size_.parts = {1};
  Begin();
  Until([&] { return shown_.find("asked Slurm for a node to grow in job 7") != shown_.npos; });
  slurm_.Write("jobs", "1|RUNNING|n1|None\n7|RUNNING|n2|None\n");
  RunFor(2);
  EXPECT_THAT(slurm_.Calls("scancel"), IsEmpty());
  EXPECT_THAT(controller_.calls(), Not(Contains("POST /v1/nodes/n2/drain")));
  ASSERT_THAT(shown_, Not(HasSubstr("has not used")));
  slurm_.Write("run/slurm/size", "1\n");
  Until([&] { return !slurm_.Calls("scancel").empty(); });
  EXPECT_THAT(shown_, HasSubstr("gives job 7 back to Slurm, with n2"));
  EXPECT_THAT(controller_.calls(), Contains("POST /v1/nodes/n2/drain"));
  EXPECT_EQ(FirstCancelled(), "scancel --quiet 7");
}

TEST_F(SlurmLauncherTest, GivesBackAJobOfItsGrowthThatTheRunDoesNotUse) {
  size_.parts = {1};
  unused_limit_ = std::chrono::milliseconds(1);
  Begin();
  Until([&] { return shown_.find("asked Slurm for a node to grow in job 7") != shown_.npos; });
  slurm_.Write("jobs", "1|RUNNING|n1|None\n7|RUNNING|n2|None\n");
  Until([&] { return !slurm_.Calls("scancel").empty(); });
  EXPECT_THAT(shown_, HasSubstr("the run has not used the nodes of job 7 for 1 ms"));
  EXPECT_EQ(FirstCancelled(), "scancel --quiet 7");
}

TEST_F(SlurmLauncherTest, KeepsAJobOfItsGrowthThatTheRunUses) {
  size_.parts = {1};
  unused_limit_ = std::chrono::milliseconds(1);
  controller_.SetBusy();
  Begin();
  Until([&] { return shown_.find("asked Slurm for a node to grow in job 7") != shown_.npos; });
  slurm_.Write("jobs", "1|RUNNING|n1|None\n7|RUNNING|n2|None\n");
  RunFor(5);
  EXPECT_THAT(slurm_.Calls("scancel"), IsEmpty());
  EXPECT_THAT(shown_, Not(HasSubstr("has not used")));
}

TEST_F(SlurmLauncherTest, ReadsALongListOfNodes) {
  std::string nodes = "n1";
  for (int i = 0; i < 1000; ++i) nodes += ",node-" + std::to_string(i);
  slurm_.Write("jobs", "1|RUNNING|" + nodes + "|None\n");
  Begin();
  RunFor(2);
  EXPECT_THAT(shown_, Not(HasSubstr("does not answer")));
}

}  // namespace
}  // namespace longhaul::engines::slurm
