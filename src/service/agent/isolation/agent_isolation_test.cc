// A job of a real agent that harms others: too many processes, too much output, another user's
// files. The jobs beside it go on.
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <filesystem>
#include <iterator>
#include <set>
#include <string>
#include <system_error>

#include "io/process/cgroup.h"
#include "io/process/process_tree.h"
#include "io/process/user_account.h"
#include "service/agent/agent_service_fixture.h"

namespace longhaul::service::agent_isolation_test {
namespace {

constexpr uint64_t kKiB = 1024;

// A job beside kJob, whose worker runs until it is killed.
class IsolationTest : public AgentServiceTest, public ::testing::WithParamInterface<bool> {
 protected:
  IsolationTest() { options_.use_groups = GetParam(); }

  void StartNeighbour() {
    proto::Command start = Start(1, {"tail", "-f", "/dev/null"});
    start.mutable_start_workers()->set_job_id("neighbour");
    start.mutable_start_workers()->mutable_job()->set_id("neighbour");
    start.mutable_start_workers()->mutable_job()->set_run_directory(folder_ + "/neighbour");
    controller_.Give(start);
    ASSERT_TRUE(Await([this] { return Count(&proto::Event::has_workers_started) == 1; }));
    neighbour_ = static_cast<pid_t>(LastStarted().pids(0));
  }
  // The processes that the worker's environment marks as the job's.
  int ProcessesOfJob() const {
    int count = 0;
    for (const auto& entry : std::filesystem::directory_iterator("/proc")) {
      const std::string name = entry.path().filename();
      if (name.front() < '0' || name.front() > '9') continue;
      if (io::StartedWith(std::stoi(name), "ISOLATION_TEST=" + folder_)) ++count;
    }
    return count;
  }
  proto::Command Script(const std::string& script) const {
    proto::Command start = Shell(1, script);
    proto::Job& job = *start.mutable_start_workers()->mutable_job();
    (*job.mutable_workload()->mutable_environment())["ISOLATION_TEST"] = folder_;
    return start;
  }

  pid_t neighbour_ = 0;
};

TEST_P(IsolationTest, EndsAForkBombWithItsCauseWhileItsNeighbourGoesOn) {
  Join();
  StartNeighbour();
  // It ends by itself, so that a test that fails does not harm the machine.
  proto::Command bomb =
      Script("i=0; while [ $i -lt 1000 ]; do setsid sleep 60 & i=$((i+1)); done; wait");
  bomb.mutable_start_workers()->mutable_job()->mutable_limits()->set_processes(24);
  controller_.Give(bomb);
  ASSERT_TRUE(Await([this] { return Count(&proto::Event::has_worker_exited) == 1; }));
  const proto::WorkerExited exited = First(&proto::Event::has_worker_exited).worker_exited();
  EXPECT_EQ(exited.job_id(), kJob);
  EXPECT_NE(exited.reached_limit().find("limit of 24 processes"), std::string::npos)
      << exited.reached_limit();
  EXPECT_TRUE(exited.ends_job());
  EXPECT_TRUE(Await([this] { return ProcessesOfJob() == 0; })) << ProcessesOfJob();
  EXPECT_TRUE(IsAlive(neighbour_));
}

// One that was started without the worker's environment is found by its group alone.
TEST_P(IsolationTest, EndsWhatAWorkerLeavesBehind) {
  Join();
  const std::string escape =
      GetParam() ? "env -i setsid sleep 601 & echo $! >&2" : "setsid sleep 601 & echo $! >&2";
  controller_.Give(Script(escape + "; sleep 0"));
  ASSERT_TRUE(Await([this] { return Count(&proto::Event::has_attempt_closed) == 1; }));
  const pid_t left = std::stoi(ReadAll(LogOf(1, 0)));
  EXPECT_TRUE(Await([&] { return !io::ReadProcessFacts(left).ok(); })) << left;
}

TEST_P(IsolationTest, LeavesNoControlGroup) {
  const auto groups = [] {
    std::set<std::string> names;
    std::error_code error;
    const io::CgroupPlaces own = io::OwnCgroupPlaces();
    for (const std::string& place : {own.unified, own.pids, own.cpu}) {
      for (const auto& entry : std::filesystem::directory_iterator(place, error)) {
        if (entry.path().filename().string().starts_with("longhaul-")) names.insert(entry.path());
      }
    }
    return names;
  };
  const std::set<std::string> before = groups();
  Join();
  controller_.Give(Script("sleep 600 & exit 3"));
  ASSERT_TRUE(Await([this] { return Count(&proto::Event::has_attempt_closed) == 1; }));
  StartNeighbour();
  agent_.reset();
  std::set<std::string> left;
  std::ranges::set_difference(groups(), before, std::inserter(left, left.end()));
  // Agents of other tests may run meanwhile: only what stays is left over.
  EXPECT_TRUE(Await([&] {
    std::erase_if(left, [](const std::string& name) { return access(name.c_str(), F_OK) != 0; });
    return left.empty();
  })) << *left.begin();
}

TEST_P(IsolationTest, BoundsALogThatGrowsWithoutEndAndReportsItOnce) {
  Join();
  proto::Command flood = Script("yes");
  flood.mutable_start_workers()->mutable_job()->mutable_limits()->set_log_bytes(256 * kKiB);
  controller_.Give(flood);
  ASSERT_TRUE(Await([this] { return Count(&proto::Event::has_log_limited) == 1; }));
  const proto::LogLimited limited = First(&proto::Event::has_log_limited).log_limited();
  EXPECT_EQ(limited.job_id(), kJob);
  EXPECT_EQ(limited.limit_bytes(), 256 * kKiB);
  EXPECT_EQ(limited.error(), "");
  // Stopped, so that the length of the file stays as it is between the looks.
  const auto pid = static_cast<pid_t>(LastStarted().pids(0));
  ASSERT_EQ(kill(-pid, SIGSTOP), 0);
  EXPECT_TRUE(Await([this] {
    struct stat facts {};
    return stat(LogOf(1, 0).c_str(), &facts) == 0 &&
           static_cast<uint64_t>(facts.st_blocks) * 512 <= 300 * kKiB;
  }));
  EXPECT_EQ(Count(&proto::Event::has_log_limited), 1);
  EXPECT_EQ(Count(&proto::Event::has_worker_exited), 0) << "the job goes on";
}

INSTANTIATE_TEST_SUITE_P(Both, IsolationTest, ::testing::Values(true, false),
                         [](const auto& instance) {
                           return instance.param ? "Groups" : "Counted";
                         });

// -- another user

class RunAsTest : public WorkerApiTest {
 protected:
  void SetUp() override {
    if (geteuid() != 0) GTEST_SKIP() << "only root can run jobs as another user";
    options_.run_as = "nobody";
    nobody_ = *io::FindUser("nobody");
    ASSERT_EQ(chmod(folder_.c_str(), 0711), 0);
    std::filesystem::create_directory(folder_ + "/run");
    ASSERT_EQ(chown((folder_ + "/run").c_str(), nobody_.user, nobody_.group), 0);
  }
  // In a run directory that the agent chooses.
  proto::Command Script(const std::string& script) const {
    proto::Command start = Shell(1, script);
    start.mutable_start_workers()->mutable_job()->clear_run_directory();
    return start;
  }
  std::string Run(const std::string& script) {
    controller_.Give(Script(script));
    EXPECT_TRUE(Await([this] { return Count(&proto::Event::has_attempt_closed) == 1; }));
    return ReadAll(options_.state_directory + "/jobs/job-1/logs/attempt-1/rank-0.log");
  }

  io::UserAccount nobody_;
};

TEST_F(RunAsTest, StartsWorkersAsTheUserWithItsVariables) {
  Join();
  EXPECT_EQ(Run("id -u; id -G; echo $USER $LOGNAME $HOME"),
            std::to_string(nobody_.user) + "\n" + std::to_string(nobody_.group) +
                "\nnobody nobody " + nobody_.home + "\n");
}

TEST_F(RunAsTest, GivesTheFilesOfARunToTheUser) {
  Join();
  Run("echo '{\"message\":\"why it failed\"}' > $TORCHELASTIC_ERROR_FILE; exit 3");
  EXPECT_EQ(First(&proto::Event::has_worker_exited).worker_exited().message(), "why it failed");
  struct stat facts {};
  const std::string run = options_.state_directory + "/jobs/job-1";
  for (const char* name : {"", "/logs", "/logs/attempt-1", "/logs/attempt-1/rank-0.log"}) {
    ASSERT_EQ(stat((run + name).c_str(), &facts), 0) << name;
    EXPECT_EQ(facts.st_uid, nobody_.user) << name;
  }
}

// The keys of the agent's certificate are there.
TEST_F(RunAsTest, KeepsTheStateDirectoryFromTheUser) {
  std::filesystem::create_directories(options_.state_directory + "/tls");
  chmod((options_.state_directory + "/tls").c_str(), 0700);
  Join();
  const std::string said =
      Run("ls " + options_.state_directory + " || echo closed; touch " + options_.state_directory +
          "/x || echo closed; ls " + options_.state_directory +
          "/tls || echo closed; kill -9 $PPID || " + "echo closed");
  size_t closed = 0;
  for (size_t at = 0; (at = said.find("closed\n", at)) != std::string::npos; ++at) ++closed;
  EXPECT_EQ(closed, 4u) << said;
}

// A user who may write to the run directory can put a link into it: the agent, which is root, must
// not follow it to where the user may not write.
TEST_F(RunAsTest, WritesNothingForAJobThatItsUserMayNotWrite) {
  std::filesystem::create_directories(folder_ + "/of-root");
  chmod((folder_ + "/of-root").c_str(), 0755);
  Join();
  Run("true");
  const std::string logs = options_.state_directory + "/jobs/job-1/logs";
  std::filesystem::remove_all(logs);
  std::filesystem::create_directory_symlink(folder_ + "/of-root", logs);
  proto::Command again = Script("true");
  again.mutable_start_workers()->set_attempt(2);
  controller_.Give(again);
  ASSERT_TRUE(Await([this] { return Count(&proto::Event::has_workers_failed_to_start) == 1; }));
  EXPECT_TRUE(std::filesystem::is_empty(folder_ + "/of-root"));
}

TEST_F(RunAsTest, AcceptsTheUsersWorkerAtItsSocketAndNoProcessOfRoot) {
  Open(1, [this] {
    chmod((folder_ + "/relay").c_str(), 0666);
    chmod((folder_ + "/connect.py").c_str(), 0644);
  });
  Greet(1);
  EXPECT_TRUE(Await([this] { return Count(&proto::Event::has_phase_entered) == 1; }));
  Result<io::Fd> stranger = io::ConnectUnix(path_);
  ASSERT_TRUE(stranger.ok()) << stranger.status();
  socket_ = *std::move(stranger);
  ASSERT_EQ(fcntl(socket_.get(), F_SETFL, O_NONBLOCK), 0);
  EXPECT_TRUE(Listen().bytes.empty()) << "closed";
}

TEST(WhyNotAsUser, NamesTheOptionAndTheRemedy) {
  const auto options = [](const std::string& run_as, bool allow_root, pid_t parent) {
    AgentOptions made;
    made.run_as = run_as;
    made.allow_root = allow_root;
    made.parent = parent;
    return made;
  };
  const struct {
    AgentOptions options;
    uid_t user;
    const char* want;  // empty: it may
  } kRows[] = {
      {options("", false, 0), 1000, ""},
      {options("", true, 0), 0, ""},
      {options("", false, 7), 0, ""},
      {options("", false, 0), 0, "add --run-as USER or --allow-root"},
      {options("nobody", false, 0), 0, ""},
      {options("nobody", false, 0), 1000, "needs an agent that is started as root"},
      {options("nobody", true, 0), 0, "exclude each other"},
      {options("no-such-user-here", false, 0), 0, "there is no user no-such-user-here"},
      {options("root", false, 0), 0, "is root"},
  };
  for (const auto& row : kRows) {
    const std::string why = WhyNotAsUser(row.options, row.user);
    EXPECT_EQ(why.empty(), *row.want == '\0') << why;
    EXPECT_NE(why.find(row.want), std::string::npos) << why;
  }
}

}  // namespace
}  // namespace longhaul::service::agent_isolation_test
