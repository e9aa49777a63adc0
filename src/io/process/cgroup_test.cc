#include "io/process/cgroup.h"

#include <gtest/gtest.h>
#include <poll.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <string>

#include "io/process/process.h"

namespace longhaul::io {
namespace {

// As systemd mounts version 2, here seen in a container whose root is a group of the host.
TEST(CgroupPlaces, FindsTheGroupOfThisProcessInVersion2) {
  const auto places = ParseCgroupPlaces(
      "25 30 0:23 / /sys rw,nosuid shared:7 - sysfs sysfs rw\n"
      "35 24 0:30 / /sys/fs/cgroup rw,nosuid,nodev shared:9 - cgroup2 cgroup2 rw,nsdelegate\n",
      "0::/system.slice/longhaul-agent.service\n");
  CgroupPlaces want;
  want.unified = "/sys/fs/cgroup/system.slice/longhaul-agent.service";
  EXPECT_EQ(places, want);
}

TEST(CgroupPlaces, TakesOffWhatTheMountHides) {
  const auto places = ParseCgroupPlaces(
      "35 24 0:30 /docker/ab /sys/fs/cgroup ro - cgroup2 cgroup rw\n", "0::/docker/ab/inner\n");
  EXPECT_EQ(places.unified, "/sys/fs/cgroup/inner");
  const auto outside = ParseCgroupPlaces(
      "35 24 0:30 /docker/ab /sys/fs/cgroup ro - cgroup2 cgroup rw\n", "0::/docker/abc\n");
  EXPECT_EQ(outside.unified, "") << "/docker/abc is not below /docker/ab";
}

TEST(CgroupPlaces, FindsEachControllerOfVersion1) {
  const auto places = ParseCgroupPlaces(
      "40 35 0:33 / /sys/fs/cgroup/cpu,cpuacct rw shared:15 - cgroup cgroup rw,cpu,cpuacct\n"
      "41 35 0:34 / /sys/fs/cgroup/my\\040pids rw shared:16 - cgroup cgroup rw,pids\n"
      "42 35 0:35 / /sys/fs/cgroup/memory rw shared:17 - cgroup cgroup rw,memory\n",
      "5:pids:/\n4:memory:/jobs/7\n2:cpu,cpuacct:/jobs\n1:name=systemd:/x\n");
  CgroupPlaces want;
  want.pids = "/sys/fs/cgroup/my pids";
  want.memory = "/sys/fs/cgroup/memory/jobs/7";
  want.cpu = "/sys/fs/cgroup/cpu,cpuacct/jobs";
  EXPECT_EQ(places, want);
}

TEST(CgroupPlaces, AreEmptyForTextsOfAnotherForm) {
  for (const char* text : {"", "\n", "a b", "1 2 3 - cgroup", " - cgroup2 x y\n", "::::\n"}) {
    EXPECT_EQ(ParseCgroupPlaces(text, text), CgroupPlaces()) << text;
  }
}

TEST(CgroupFolder, StatesWhyThereIsNone) {
  EXPECT_EQ(CgroupFolder::Open(CgroupPlaces(), "test").status().code(), Code::kUnavailable);
}

// Of the kernel, where this user may make groups.
class CgroupTest : public ::testing::Test {
 protected:
  void SetUp() override {
    owner_ = "test-" + std::to_string(getpid());
    CgroupPlaces places = OwnCgroupPlaces();
    places.memory.clear();  // a group of others limits the memory of this test, and stays as it is
    Result<std::unique_ptr<CgroupFolder>> folder = CgroupFolder::Open(places, owner_);
    if (!folder.ok()) GTEST_SKIP() << folder.status();
    places_ = places;
    folder_ = *std::move(folder);
    Result<Cgroup> group = folder_->Make("1", {kTasks, 0});
    ASSERT_TRUE(group.ok()) << group.status();
    group_ = std::make_unique<Cgroup>(*std::move(group));
  }
  void TearDown() override {
    if (group_ == nullptr) return;
    EndAll();
    for (const pid_t process : started_) (void)waitpid(process, nullptr, 0);
    EXPECT_TRUE(group_->Remove());
  }

  // Starts a shell in the group; it runs until it is killed.
  Process Run(const std::string& script) {
    ProcessOptions options;
    options.argv = {"sh", "-c", script};
    options.environment = {{"PATH", "/usr/bin:/bin"}};
    options.groups = group_->entrances();
    Result<Process> process = Start(options);
    EXPECT_TRUE(process.ok()) << process.status();
    if (!process.ok()) return {};
    started_.push_back(process->pid);
    return *std::move(process);
  }
  // Until nothing is in the group; this process is no subreaper, so others reap the orphans.
  void EndAll() const {
    for (int i = 0; i < 1'000'000 && !group_->Processes().empty(); ++i) {
      for (const pid_t process : group_->Kill()) (void)waitpid(process, nullptr, WNOHANG);
    }
  }
  template <typename Condition>
  static bool Await(Condition condition) {
    for (int i = 0; i < 1'000'000; ++i) {
      if (condition()) return true;
    }
    return false;
  }

  static constexpr uint64_t kTasks = 24;
  std::string owner_;
  std::vector<pid_t> started_;
  CgroupPlaces places_;
  std::unique_ptr<CgroupFolder> folder_;
  std::unique_ptr<Cgroup> group_;
};

TEST_F(CgroupTest, HoldsWhatAProcessStartsAlsoInAnotherSession) {
  Run("setsid sleep 600 & setsid sleep 600 & sleep 600");
  EXPECT_TRUE(Await([&] { return group_->Processes().size() >= 4; }));
  EXPECT_EQ(group_->counts().forks_refused, 0u);
  EndAll();
  EXPECT_TRUE(group_->Processes().empty());
}

TEST_F(CgroupTest, StopsAForkBombAtTheLimitAndEndsIt) {
  Run("while :; do setsid sleep 600 & done");
  EXPECT_TRUE(Await([&] { return group_->counts().forks_refused > 0; }));
  EXPECT_LE(group_->Processes().size(), kTasks);
  EndAll();
  EXPECT_TRUE(group_->Processes().empty());
}

TEST_F(CgroupTest, TakesAProcessThatExistsAlready) {
  ProcessOptions options;
  options.argv = {"sleep", "600"};
  options.environment = {{"PATH", "/usr/bin:/bin"}};
  const Result<Process> process = Start(options);
  ASSERT_TRUE(process.ok()) << process.status();
  EXPECT_TRUE(group_->Processes().empty());
  started_.push_back(process->pid);
  ASSERT_TRUE(group_->Add(process->pid).ok());
  EXPECT_EQ(group_->Processes(), std::vector<pid_t>{process->pid});
}

TEST_F(CgroupTest, IsNotRemovedWhileItHasAProcess) {
  Run("exec sleep 600");
  EXPECT_FALSE(group_->Remove());
  EXPECT_FALSE(group_->Processes().empty());
}

// The agent that made them was killed: its successor has the same name.
TEST_F(CgroupTest, OfAnEarlierOwnerAreEndedAndRemoved) {
  const Process process = Run("exec sleep 600");
  ASSERT_EQ(group_->Processes().size(), 1u);
  ASSERT_TRUE(CgroupFolder::Open(places_, "other-" + owner_).ok());
  ASSERT_EQ(group_->Processes().size(), 1u) << "of another owner they stay";
  ASSERT_TRUE(CgroupFolder::Open(places_, owner_).ok());
  const Result<ExitStatus> status = Reap(process.pidfd);
  ASSERT_TRUE(status.ok());
  EXPECT_EQ(status->signal, SIGKILL);
}

}  // namespace
}  // namespace longhaul::io
