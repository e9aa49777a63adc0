#include "frontend/embedded_cluster.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/stat.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <memory>

#include "base/text.h"
#include "io/clock.h"
#include "io/files/file.h"

namespace longhaul::frontend {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using ::testing::HasSubstr;

// Stands for `longhaul`: writes down its arguments; as a controller also what a real one writes.
// Then it waits for its end, with a child of its own in another session.
constexpr const char* kFakeProgram = R"(#!/bin/sh
echo "$$ $*" >> "$FAKE_DIRECTORY/starts"
if [ -e "$FAKE_DIRECTORY/broken" ]; then echo "cannot bind: port in use" >&2; exit 1; fi
if [ "$1" = controller ]; then
  umask 077; echo secret > "$FAKE_DIRECTORY/token"
  printf '{"rest":"http://127.0.0.1:4711","agents":"127.0.0.1:4712","token_file":"%s","pid":%s}' \
    "$FAKE_DIRECTORY/token" $$ > "$FAKE_DIRECTORY/endpoint.tmp"
  mv "$FAKE_DIRECTORY/endpoint.tmp" "$FAKE_DIRECTORY/endpoint.json"
  if [ -e "$FAKE_DIRECTORY/short-lived" ]; then exit 3; fi
else
  setsid sleep 1000 &
  echo $! >> "$FAKE_DIRECTORY/workers"
fi
exec sleep 1000
)";

class EmbeddedClusterTest : public ::testing::Test {
 protected:
  void SetUp() override {
    std::string path = (std::filesystem::temp_directory_path() / "cluster-XXXXXX").string();
    ASSERT_NE(mkdtemp(path.data()), nullptr);
    directory_ = path;
    setenv("FAKE_DIRECTORY", directory_.c_str(), 1);
    std::ofstream(directory_ + "/longhaul") << kFakeProgram;
    chmod((directory_ + "/longhaul").c_str(), 0755);
    loop_ = *io::EventLoop::Create();
    options_.program = directory_ + "/longhaul";
    options_.directory = directory_;
    options_.replacement_delay = milliseconds(1);
    options_.stop_grace = seconds(2);
  }
  void TearDown() override {
    cluster_.reset();
    std::filesystem::remove_all(directory_);
  }

  void Start() {
    ClusterObserver observer;
    observer.on_ready = [this](const service::Endpoint&) { ready_ = true; };
    observer.on_restarted = [this](const service::Endpoint&) { ++restarts_; };
    observer.on_event = [this](const std::string& text) { events_.push_back(text); };
    observer.on_failed = [this](const Status& reason) { failure_ = reason; };
    cluster_ = std::make_unique<EmbeddedCluster>(*loop_, options_, observer);
    ASSERT_EQ(cluster_->Start(), Status());
  }
  // Runs the loop until `done`; fails after a while.
  void RunUntil(const std::function<bool()>& done) {
    const Instant deadline = io::MonotonicNow() + seconds(20);
    while (!done() && io::MonotonicNow() < deadline) loop_->RunOnce(milliseconds(20));
    ASSERT_TRUE(done());
  }
  void Touch(const std::string& name) { std::ofstream(directory_ + "/" + name) << "x"; }
  std::vector<std::string> LinesOf(const std::string& name) {
    std::vector<std::string> lines;
    std::ifstream file(directory_ + "/" + name);
    for (std::string line; std::getline(file, line);) lines.push_back(line);
    return lines;
  }
  bool IsAlive(const std::string& pid) {
    return io::ReadProcessFacts(static_cast<pid_t>(*ParseInt64(pid))).ok();
  }

  std::string directory_;
  std::unique_ptr<io::EventLoop> loop_;
  ClusterOptions options_;
  std::unique_ptr<EmbeddedCluster> cluster_;
  bool ready_ = false;
  int restarts_ = 0;
  std::vector<std::string> events_;
  Status failure_;
};

TEST_F(EmbeddedClusterTest, StartsTheControllerThenItsAgents) {
  Start();
  RunUntil([&] { return LinesOf("workers").size() == 2; });
  EXPECT_TRUE(ready_);
  const auto starts = LinesOf("starts");
  ASSERT_EQ(starts.size(), 3u);
  EXPECT_THAT(starts[0], HasSubstr("controller --state-dir " + directory_ +
                                   " --rest 127.0.0.1:0 --agents 127.0.0.1:0 --parent " +
                                   std::to_string(getpid())));
  for (const std::string& start : {starts[1], starts[2]}) {
    EXPECT_THAT(start, HasSubstr("agent --controller 127.0.0.1:4712 --token-file " + directory_ +
                                 "/token --node node-"));
    EXPECT_THAT(start, HasSubstr("--slots 2 --state-dir " + directory_ + "/node-"));
  }
}

TEST_F(EmbeddedClusterTest, StartsADeadControllerAgainOnTheSamePorts) {
  Start();
  RunUntil([&] { return LinesOf("workers").size() == 2; });
  const pid_t before = cluster_->pids().front();
  kill(before, SIGKILL);
  RunUntil([&] { return restarts_ == 1; });
  EXPECT_NE(cluster_->pids().front(), before);
  EXPECT_THAT(LinesOf("starts").back(), HasSubstr("--rest 127.0.0.1:4711 --agents 127.0.0.1:4712"));
  EXPECT_EQ(events_.at(0), "the controller was killed by SIGKILL; started again");
  EXPECT_EQ(cluster_->pids().size(), 3u);
}

TEST_F(EmbeddedClusterTest, ReplacesADeadAgentAndKillsWhatItLeft) {
  Start();
  RunUntil([&] { return LinesOf("workers").size() == 2; });
  for (const pid_t pid : cluster_->pids()) {
    if (pid != cluster_->pids().front()) kill(pid, SIGKILL);
  }
  RunUntil([&] { return LinesOf("workers").size() == 4; });
  const auto workers = LinesOf("workers");
  EXPECT_FALSE(IsAlive(workers[0]));
  EXPECT_FALSE(IsAlive(workers[1]));
  EXPECT_TRUE(IsAlive(workers[2]));
  EXPECT_TRUE(std::filesystem::exists(directory_ + "/node-1"));
  EXPECT_THAT(events_.at(0), HasSubstr("was killed by SIGKILL; a new agent takes its place in"));
}

TEST_F(EmbeddedClusterTest, LeavesNoProcessBehind) {
  Start();
  RunUntil([&] { return LinesOf("workers").size() == 2; });
  bool stopped = false;
  cluster_->Stop([&] { stopped = true; });
  RunUntil([&] { return stopped; });
  for (const std::string& worker : LinesOf("workers")) EXPECT_FALSE(IsAlive(worker));
  for (const std::string& start : LinesOf("starts")) {
    EXPECT_FALSE(IsAlive(std::string(Split(start, ' ').front()))) << start;
  }
  EXPECT_EQ(failure_, Status());
}

TEST_F(EmbeddedClusterTest, SaysWhyTheControllerDoesNotStart) {
  Touch("broken");
  Start();
  RunUntil([&] { return !failure_.ok(); });
  EXPECT_THAT(failure_.message(), HasSubstr("the controller exited with code 1"));
  EXPECT_THAT(failure_.message(), HasSubstr("cannot bind: port in use"));
  EXPECT_EQ(LinesOf("starts").size(), 1u);
}

TEST_F(EmbeddedClusterTest, GivesUpAfterTooManyDeaths) {
  options_.deaths_allowed = 4;
  Start();
  RunUntil([&] { return LinesOf("workers").size() == 2; });
  Touch("broken");
  kill(cluster_->pids().front(), SIGKILL);
  RunUntil([&] { return !failure_.ok(); });
  EXPECT_THAT(failure_.message(), HasSubstr("port in use"));
  EXPECT_EQ(LinesOf("starts").size(), 3u + 3u);
  for (const std::string& worker : LinesOf("workers")) EXPECT_FALSE(IsAlive(worker));
}

}  // namespace
}  // namespace longhaul::frontend
