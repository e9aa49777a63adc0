#include "io/files/owner_lock.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <fstream>
#include <optional>

#include "base/temporary_folder.h"
#include "io/process/process.h"

namespace longhaul::io {
namespace {

constexpr Duration kNoTime = Duration(0);

TEST(OwnerLock, OneOwnerAtATimeAndTheOtherLearnsWho) {
  const TemporaryFolder folder(::testing::TempDir());
  std::optional<OwnerLock> lock = *OwnerLock::Take(folder.path(), "longhaul run");
  const Status refused = OwnerLock::Take(folder.path(), "another").status();
  EXPECT_EQ(refused.code(), Code::kAlreadyExists);
  EXPECT_NE(refused.message().find(folder.path()), std::string::npos) << refused;
  EXPECT_NE(refused.message().find("longhaul run, process " + std::to_string(getpid())),
            std::string::npos)
      << refused;
  lock.reset();
  EXPECT_TRUE(OwnerLock::Take(folder.path(), "another").ok());
}

TEST(OwnerLock, ItsFileIsPrivate) {
  const TemporaryFolder folder(::testing::TempDir());
  const mode_t before = umask(0);
  const OwnerLock lock = *OwnerLock::Take(folder.path(), "test");
  umask(before);
  struct stat facts {};
  ASSERT_EQ(stat((folder.path() + "/owner.lock").c_str(), &facts), 0);
  EXPECT_EQ(facts.st_mode & 0777, 0600u);
}

TEST(OwnerLock, AChildThatInheritsItHoldsItUntilItEnds) {
  const TemporaryFolder folder(::testing::TempDir());
  std::optional<OwnerLock> lock = *OwnerLock::Take(folder.path(), "test");
  int ends[2];
  ASSERT_EQ(pipe2(ends, O_CLOEXEC), 0);
  Fd child_stdin(ends[0]);
  Fd ours(ends[1]);
  ProcessOptions options;
  options.argv = {"/bin/cat"};  // until its input ends
  options.stdin_fd = child_stdin.get();
  options.inherited = {{lock->fd(), 5}};
  const Result<Process> child = Start(options);
  ASSERT_TRUE(child.ok()) << child.status();
  lock.reset();
  EXPECT_EQ(OwnerLock::Take(folder.path(), "next").status().code(), Code::kAlreadyExists);
  ours = Fd();
  ASSERT_TRUE(Reap(child->pidfd).ok());
  EXPECT_TRUE(OwnerLock::Take(folder.path(), "next").ok());
}

TEST(OwnerLock, AWaitHasALimitAndIsAnnouncedOnce) {
  const TemporaryFolder folder(::testing::TempDir());
  std::optional<OwnerLock> lock = *OwnerLock::Take(folder.path(), "first");
  EXPECT_EQ(OwnerLock::TakeWithin(folder.path(), "second", kNoTime, {}).status().code(),
            Code::kAlreadyExists);
  int announced = 0;
  const auto next = OwnerLock::TakeWithin(folder.path(), "second", std::chrono::hours(1),
                                          [&](const std::string& owner) {
                                            ++announced;
                                            EXPECT_NE(owner.find("first"), std::string::npos);
                                            lock.reset();
                                          });
  EXPECT_TRUE(next.ok()) << next.status();
  EXPECT_EQ(announced, 1);
}

TEST(OwnerLock, TextOfAnEndedOwnerDoesNotLock) {
  const TemporaryFolder folder(::testing::TempDir());
  std::ofstream(folder.path() + "/owner.lock") << "longhaul run, process 1 on nowhere\n\x1b[2J";
  EXPECT_TRUE(OwnerLock::Take(folder.path(), "test").ok());
}

TEST(OwnerLock, AFolderThatIsMissingIsAnError) {
  EXPECT_EQ(OwnerLock::Take("/nonexistent/folder", "test").status().code(), Code::kNotFound);
}

}  // namespace
}  // namespace longhaul::io
