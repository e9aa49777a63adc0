#include "io/process/command.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/prctl.h>
#include <unistd.h>

#include <cerrno>
#include <string>

#include "io/clock.h"

namespace longhaul::io {
namespace {

using testing::HasSubstr;

CommandOptions Script(const std::string& script) {
  CommandOptions options;
  options.argv = {"/bin/sh", "-c", script};
  options.environment = CurrentEnvironment();
  options.limit = std::chrono::minutes(5);
  options.most_output = 1000;
  return options;
}

Result<CommandOutcome> RunScript(const CommandOptions& options,
                                 const CommandDeadline& deadline = {}) {
  CommandProcesses processes;
  return RunCommand(options, deadline, processes);
}

TEST(Command, ReturnsWhatItWritesAndItsLastError) {
  CommandOptions options = Script("cat; echo first >&2; printf 'la\\001st' >&2; exit 3");
  options.input = "a\nb";
  const Result<CommandOutcome> outcome = RunScript(options);
  ASSERT_TRUE(outcome.ok()) << outcome.status();
  EXPECT_TRUE(outcome->ended);
  EXPECT_FALSE(outcome->succeeded());
  EXPECT_EQ(outcome->output, "a\nb");
  EXPECT_FALSE(outcome->cut);
  EXPECT_EQ(FailureText(*outcome), "it exited with code 3: la\\x01st");
}

TEST(Command, OutputWithoutEndIsCutAndDoesNotBlockIt) {
  const Result<CommandOutcome> outcome =
      RunScript(Script("head -c 3000000 /dev/zero; echo done >&2"));
  ASSERT_TRUE(outcome.ok()) << outcome.status();
  EXPECT_TRUE(outcome->succeeded());
  EXPECT_EQ(outcome->output.size(), 1000U);
  EXPECT_TRUE(outcome->cut);
  EXPECT_EQ(outcome->last_error, "done");
}

TEST(Command, IsKilledAtItsLimitAlsoIfItHasClosedItsOutput) {
  CommandOptions options = Script("exec >&- 2>&-; exec sleep 1000");
  options.limit = std::chrono::milliseconds(20);
  const Result<CommandOutcome> outcome = RunScript(options);
  ASSERT_TRUE(outcome.ok()) << outcome.status();
  EXPECT_FALSE(outcome->ended);
  EXPECT_FALSE(outcome->succeeded());
}

TEST(Command, IsKilledOnceTheDeadlineHasPassed) {
  CommandDeadline deadline;
  deadline.MoveTo(MonotonicNow());
  const Result<CommandOutcome> outcome = RunScript(Script("sleep 1000"), deadline);
  ASSERT_TRUE(outcome.ok()) << outcome.status();
  EXPECT_FALSE(outcome->ended);
}

TEST(Command, InheritsNoDescriptor) {
  const int open_here = ::open("/dev/null", O_RDONLY);  // without O_CLOEXEC
  ASSERT_GT(open_here, 2);
  const Result<CommandOutcome> outcome =
      RunScript(Script("test -e /proc/self/fd/" + std::to_string(open_here) + " && echo open"));
  ::close(open_here);
  ASSERT_TRUE(outcome.ok()) << outcome.status();
  EXPECT_EQ(outcome->output, "");
}

TEST(Command, ThatCannotBeStartedIsAnError) {
  CommandOptions options = Script("");
  options.argv = {"/nonexistent/program"};
  EXPECT_THAT(RunScript(options).status().message(), HasSubstr("/nonexistent/program"));
}

// A process that has left its group writes its number and stays; it is our child once its parent
// has ended, because this process is a subreaper.
TEST(Command, AlsoKillsProcessesThatHaveLeftItsGroupIfItHasAMark) {
  ASSERT_TRUE(BecomeSubreaper().ok());
  CommandOptions options =
      Script("{ setsid sh -c 'echo $$; exec sleep 1000' & } | head -n 1; sleep 1000 & :");
  options.mark = "LONGHAUL_TEST_COMMAND=1";
  const Result<CommandOutcome> outcome = RunScript(options);
  // Other tests expect that orphans among their descendants are not theirs.
  (void)::prctl(PR_SET_CHILD_SUBREAPER, 0);
  ASSERT_TRUE(outcome.ok()) << outcome.status();
  EXPECT_TRUE(outcome->succeeded()) << FailureText(*outcome);
  const pid_t escaped = std::stoi(outcome->output);
  ASSERT_GT(escaped, 1);
  EXPECT_EQ(::kill(escaped, 0), -1);
  EXPECT_EQ(errno, ESRCH);
}

}  // namespace
}  // namespace longhaul::io
