#include "io/files/private_files.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <string>

#include "base/temporary_folder.h"
#include "io/files/direct_file.h"
#include "io/files/file.h"
#include "io/process/process.h"

namespace longhaul::io {
namespace {

mode_t ModeOf(const std::string& path) {
  struct stat facts {};
  return stat(path.c_str(), &facts) == 0 ? facts.st_mode & 07777 : 0;
}

bool Holds(bool fact, const char* text) {
  if (!fact) fprintf(stderr, "does not hold: %s\n", text);
  return fact;
}
#define HOLDS(fact) Holds(fact, #fact)

class PrivateFilesTest : public testing::Test {
 protected:
  std::string path(const std::string& name) const { return folder_.path() + "/" + name; }

  // In a child, because the umask is the whole process's.
  template <typename Check>
  void InAChild(mode_t user_umask, Check check) {
    EXPECT_EXIT(
        {
          umask(user_umask);
          _exit(check() ? 0 : 1);
        },
        testing::ExitedWithCode(0), "");
  }

  const TemporaryFolder folder_{testing::TempDir()};
};

TEST_F(PrivateFilesTest, AreForTheirUserAloneWhateverTheUmask) {
  InAChild(0, [&] {
    MakeFilesPrivate();
    MakeFilesPrivate();  // a second call does nothing
    return HOLDS(PosixFileSystem().MakeDirectories(path("a/b")).ok()) &&
           HOLDS(WriteTextAtomically(PosixFileSystem(), path("a/b/c"), "x").ok()) &&
           HOLDS(DirectFileSystem().CreateBulk(path("a/d"), 1).ok()) &&
           HOLDS(ModeOf(path("a")) == 0700) && HOLDS(ModeOf(path("a/b")) == 0700) &&
           HOLDS(ModeOf(path("a/b/c")) == 0600) && HOLDS(ModeOf(path("a/d")) == 0600) &&
           HOLDS(UserUmask() == 0);
  });
}

TEST_F(PrivateFilesTest, SharedOnesFollowTheUsersUmask) {
  for (const mode_t mask : {mode_t{0}, mode_t{002}, mode_t{022}, mode_t{077}}) {
    std::filesystem::remove_all(path("s"));
    InAChild(mask, [&] {
      MakeFilesPrivate();
      return HOLDS(SharedFileSystem().MakeDirectories(path("s/t")).ok()) &&
             HOLDS(WriteTextAtomically(SharedFileSystem(), path("s/t/u"), "x").ok()) &&
             HOLDS(SharedDirectFileSystem().CreateBulk(path("s/v"), 1).ok()) &&
             HOLDS(ModeOf(path("s")) == (0777 & ~mask)) &&
             HOLDS(ModeOf(path("s/t")) == (0777 & ~mask)) &&
             HOLDS(ModeOf(path("s/t/u")) == (0666 & ~mask)) &&
             HOLDS(ModeOf(path("s/v")) == (0666 & ~mask));
    });
  }
}

// A user's script keeps its own umask.
TEST_F(PrivateFilesTest, ChildrenHaveTheUsersUmask) {
  InAChild(027, [&] {
    MakeFilesPrivate();
    ProcessOptions options;
    options.argv = {"touch", path("by-a-child")};
    auto process = Start(options);
    return HOLDS(process.ok()) && HOLDS(Reap(process->pidfd)->exit_code == 0) &&
           HOLDS(ModeOf(path("by-a-child")) == 0640);
  });
}

TEST_F(PrivateFilesTest, TightensAnExistingFile) {
  ASSERT_TRUE(WriteTextAtomically(PosixFileSystem(), path("x"), "x").ok());
  ASSERT_EQ(chmod(path("x").c_str(), 0664), 0);
  EXPECT_TRUE(*TightenFile(path("x")));
  EXPECT_EQ(ModeOf(path("x")), 0600u);
  EXPECT_FALSE(*TightenFile(path("x")));
  EXPECT_FALSE(*TightenFile(path("absent")));
}

TEST_F(PrivateFilesTest, WarnsOfADirectoryThatOthersMayEnter) {
  ASSERT_EQ(mkdir(path("d").c_str(), 0700), 0);
  EXPECT_EQ(WarningOfOpenDirectory(path("d")), "");
  EXPECT_EQ(WarningOfOpenDirectory(path("absent")), "");
  ASSERT_EQ(chmod(path("d").c_str(), 0755), 0);
  const std::string warning = WarningOfOpenDirectory(path("d"));
  EXPECT_NE(warning.find(path("d") + " (mode 0755)"), std::string::npos) << warning;
  EXPECT_NE(warning.find("chmod 700"), std::string::npos) << warning;
}

TEST(Start, RunsTheProgramUnderAnotherName) {
  ProcessOptions options;
  options.program = "/bin/sh";
  options.argv = {"another", "-c",
                  "test \"$(tr '\\0' ' ' < /proc/$$/cmdline | cut -c1-8)\" = 'another '"};
  options.environment = CurrentEnvironment();
  const auto process = Start(options);
  ASSERT_TRUE(process.ok()) << process.status();
  EXPECT_EQ(Reap(process->pidfd)->exit_code, 0);
}

}  // namespace
}  // namespace longhaul::io
