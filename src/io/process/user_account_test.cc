#include "io/process/user_account.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <thread>

#include "io/fd.h"

namespace longhaul::io {
namespace {

TEST(FindUser, KnowsRoot) {
  const Result<UserAccount> root = FindUser("root");
  ASSERT_TRUE(root.ok()) << root.status();
  EXPECT_EQ(root->user, 0u);
  EXPECT_EQ(root->group, 0u);
  EXPECT_EQ(root->name, "root");
  EXPECT_NE(std::ranges::find(root->groups, 0u), root->groups.end());
}

TEST(FindUser, NamesOneThatDoesNotExist) {
  const Status status = FindUser("no-such-user-here").status();
  EXPECT_EQ(status.code(), Code::kNotFound);
  EXPECT_NE(status.message().find("no-such-user-here"), std::string::npos) << status;
}

TEST(SetUserVariables, ReplacesThoseOfTheUserWhoStartedTheProcess) {
  std::map<std::string, std::string> environment = {
      {"HOME", "/root"}, {"USER", "root"}, {"XDG_RUNTIME_DIR", "/run/user/0"}, {"PATH", "/bin"}};
  SetUserVariables({"ada", 7, 8, {8}, "/home/ada", "/bin/sh"}, environment);
  const std::map<std::string, std::string> want = {{"HOME", "/home/ada"},
                                                   {"LOGNAME", "ada"},
                                                   {"PATH", "/bin"},
                                                   {"SHELL", "/bin/sh"},
                                                   {"USER", "ada"}};
  EXPECT_EQ(environment, want);
}

class FileIdentityTest : public ::testing::Test {
 protected:
  void SetUp() override {
    if (geteuid() != 0) GTEST_SKIP() << "only root can use files as another user";
    std::string folder = "/tmp/file_identity_XXXXXX";
    folder_ = mkdtemp(folder.data());
    chmod(folder_.c_str(), 0755);
    nobody_ = *FindUser("nobody");
  }
  void TearDown() override {
    if (!folder_.empty()) std::filesystem::remove_all(folder_);
  }
  bool CanCreate(const std::string& name) const {
    return Fd(open((folder_ + "/" + name).c_str(), O_CREAT | O_WRONLY | O_CLOEXEC, 0600)).valid();
  }

  std::string folder_;
  UserAccount nobody_;
};

TEST_F(FileIdentityTest, MayOnlyWhatTheUserMay) {
  {
    const FileIdentity files(&nobody_);
    EXPECT_FALSE(CanCreate("a")) << "it is a folder of root";
    EXPECT_EQ(errno, EACCES);
  }
  EXPECT_TRUE(CanCreate("b"));
}

TEST_F(FileIdentityTest, GivesNewFilesToTheUser) {
  ASSERT_EQ(chown(folder_.c_str(), nobody_.user, nobody_.group), 0);
  {
    const FileIdentity files(&nobody_);
    ASSERT_TRUE(CanCreate("a"));
  }
  struct stat facts {};
  ASSERT_EQ(stat((folder_ + "/a").c_str(), &facts), 0);
  EXPECT_EQ(facts.st_uid, nobody_.user);
  EXPECT_EQ(facts.st_gid, nobody_.group);
}

// It may still end the processes of others, which an agent has to.
TEST_F(FileIdentityTest, ConcernsFilesOfThisThreadAndThoseThatItStartsAlone) {
  bool other = false, started = false;
  std::thread waiting;
  {
    const FileIdentity files(&nobody_);
    std::thread([&] { started = CanCreate("a"); }).join();
    EXPECT_EQ(geteuid(), 0u);
  }
  std::thread([&] { other = CanCreate("b"); }).join();
  EXPECT_FALSE(started);
  EXPECT_TRUE(other);
}

TEST(FileIdentity, OfNobodyChangesNothing) {
  const FileIdentity files(nullptr);
  EXPECT_EQ(access("/", R_OK), 0);
}

}  // namespace
}  // namespace longhaul::io
