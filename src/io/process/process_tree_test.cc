#include "io/process/process_tree.h"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>

namespace longhaul::io {
namespace {

// A child, and its child, which both live until the destructor. Each leads a session of its own if
// asked for.
class Family {
 public:
  Family(bool child_session, bool grandchild_session) {
    int ready[2];
    EXPECT_EQ(::pipe(ready), 0);
    child_ = ::fork();
    if (child_ == 0) {
      if (child_session) ::setsid();
      const pid_t below = ::fork();
      if (below == 0) {
        if (grandchild_session) ::setsid();
        const pid_t self = ::getpid();
        (void)!::write(ready[1], &self, sizeof self);
      }
      while (true) ::pause();
    }
    EXPECT_EQ(::read(ready[0], &grandchild_, sizeof grandchild_), ssize_t{sizeof grandchild_});
    ::close(ready[0]);
    ::close(ready[1]);
  }
  ~Family() {
    ::kill(grandchild_, SIGKILL);
    EndChild();
  }
  void EndChild() {
    if (ended_) return;
    ::kill(child_, SIGKILL);
    ::waitpid(child_, nullptr, 0);
    ended_ = true;
  }
  Family(const Family&) = delete;
  Family& operator=(const Family&) = delete;

  pid_t child() const { return child_; }
  pid_t grandchild() const { return grandchild_; }

 private:
  pid_t child_ = 0;
  pid_t grandchild_ = 0;
  bool ended_ = false;
};

TEST(ProcessTree, IncludesDescendantsWithASessionOfTheirOwn) {
  const Family family(true, true);
  EXPECT_TRUE(BelongsTo(family.child(), family.child()));
  EXPECT_TRUE(BelongsTo(family.grandchild(), family.child()));
}

TEST(ProcessTree, IncludesTheSessionAfterAParentHasEnded) {
  Family family(true, false);
  family.EndChild();
  EXPECT_TRUE(BelongsTo(family.grandchild(), family.child()));
}

TEST(ProcessTree, LeavesOutParentsSiblingsAndProcessesThatHaveEnded) {
  const Family one(true, false);
  const Family other(true, false);
  EXPECT_FALSE(BelongsTo(::getpid(), one.child()));
  EXPECT_FALSE(BelongsTo(one.child(), one.grandchild()));
  EXPECT_FALSE(BelongsTo(other.child(), one.child()));
  EXPECT_FALSE(BelongsTo(other.grandchild(), one.child()));
  EXPECT_FALSE(BelongsTo(0, one.child()));
  EXPECT_FALSE(BelongsTo(one.child(), 0));
  const pid_t ended = ::fork();
  if (ended == 0) ::_exit(0);
  ::waitpid(ended, nullptr, 0);
  EXPECT_FALSE(BelongsTo(ended, one.child()));
}

// Becomes a program that waits, with or without an environment.
pid_t StartWaiting(bool with_environment) {
  const pid_t child = fork();
  if (child != 0) return child;
  char* const none[] = {nullptr};
  char variable[] = "NAME=value";
  char* const one[] = {variable, nullptr};
  char name[] = "sleep", time[] = "60";
  char* const words[] = {name, time, nullptr};
  execve("/bin/sleep", words, with_environment ? one : none);
  _exit(1);
}

TEST(HasNoEnvironment, IsTrueOfALivingProcessWithoutOne) {
  const pid_t without = StartWaiting(false), with = StartWaiting(true);
  while (!StartedWith(with, "NAME=value")) usleep(1'000);  // until then it is this program
  while (!HasNoEnvironment(without)) usleep(1'000);
  EXPECT_FALSE(HasNoEnvironment(with));
  EXPECT_FALSE(HasNoEnvironment(getpid()));
  for (const pid_t child : {without, with}) kill(child, SIGKILL);
  siginfo_t ended{};
  ASSERT_EQ(waitid(P_PID, static_cast<id_t>(without), &ended, WEXITED | WNOWAIT), 0);
  EXPECT_FALSE(HasNoEnvironment(without)) << "it has ended, and was not reaped";
  for (const pid_t child : {without, with}) waitpid(child, nullptr, 0);
}

}  // namespace
}  // namespace longhaul::io
