#include "io/process/process.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <csignal>

#include "io/process/program_output.h"

namespace longhaul::io {
namespace {

struct Pipe {
  Fd reader;
  Fd writer;
};

Pipe MakePipe() {
  std::array<int, 2> ends{};
  EXPECT_EQ(pipe2(ends.data(), O_CLOEXEC), 0);
  return {Fd(ends[0]), Fd(ends[1])};
}

// All that comes until every writer has closed.
std::string ReadToEnd(const Fd& fd) {
  std::string text;
  std::array<char, 512> buffer;
  for (ssize_t got; (got = read(fd.get(), buffer.data(), buffer.size())) > 0;) {
    text.append(buffer.data(), static_cast<size_t>(got));
  }
  return text;
}

ProcessOptions Shell(const std::string& script) {
  ProcessOptions options;
  options.argv = {"sh", "-c", script};
  options.environment = {{"PATH", "/usr/bin:/bin"}, {"COLOUR", "green = blue"}};
  return options;
}

// Starts, collects standard output, reaps.
std::pair<std::string, ExitStatus> RunToEnd(ProcessOptions options) {
  Pipe pipe = MakePipe();
  options.stdout_fd = pipe.writer.get();
  Result<Process> process = Start(options);
  EXPECT_TRUE(process.ok()) << process.status();
  if (!process.ok()) return {};
  pipe.writer.Reset();
  std::string text = ReadToEnd(pipe.reader);
  const Result<ExitStatus> status = Reap(process->pidfd);
  EXPECT_TRUE(status.ok()) << status.status();
  return {text, status.ok() ? *status : ExitStatus{}};
}

TEST(Start, GivesTheExitCode) {
  const auto [text, status] = RunToEnd(Shell("exit 7"));
  EXPECT_EQ(status.exit_code, 7);
  EXPECT_EQ(status.signal, 0);
}

TEST(Start, GivesExactlyTheEnvironmentAskedFor) {
  const auto [text, status] = RunToEnd(Shell("echo \"$COLOUR|$HOME|\""));
  EXPECT_EQ(text, "green = blue||\n");
}

TEST(Start, EntersTheWorkingDirectory) {
  ProcessOptions options = Shell("pwd -P");
  options.working_directory = "/usr/bin";
  EXPECT_EQ(RunToEnd(options).first, "/usr/bin\n");
}

TEST(Start, RunsAsTheUserWithItsGroupsAndNoOthers) {
  if (geteuid() != 0) GTEST_SKIP() << "only root can start a process as another user";
  const Result<UserAccount> nobody = FindUser("nobody");
  ASSERT_TRUE(nobody.ok()) << nobody.status();
  ProcessOptions options = Shell("id -u; id -g; id -G; kill -9 $PPID 2>/dev/null || echo refused");
  options.user = *nobody;
  options.user->groups.push_back(12345);
  options.signal_on_parent_death = SIGKILL;
  const std::string user = std::to_string(nobody->user), group = std::to_string(nobody->group);
  EXPECT_EQ(RunToEnd(options).first, user + "\n" + group + "\n" + group + " 12345\nrefused\n");
}

// The kernel forgets the signal when a process changes its user.
TEST(Start, SendsTheSignalOfTheParentsDeathAlsoToAnotherUser) {
  if (geteuid() != 0) GTEST_SKIP() << "only root can start a process as another user";
  Pipe pipe = MakePipe();
  const pid_t parent = fork();
  if (parent == 0) {
    ProcessOptions options = Shell("echo started; exec sleep 600");
    options.user = *FindUser("nobody");
    options.stdout_fd = pipe.writer.get();
    options.signal_on_parent_death = SIGKILL;
    const Result<Process> process = Start(options);
    std::array<char, 8> buffer;
    (void)!read(pipe.reader.get(), buffer.data(), buffer.size());
    _exit(process.ok() ? 0 : 1);
  }
  pipe.writer.Reset();
  int status = 0;
  ASSERT_EQ(waitpid(parent, &status, 0), parent);
  ASSERT_EQ(status, 0);
  EXPECT_EQ(ReadToEnd(pipe.reader), "") << "until the child has ended, its output is open";
}

TEST(Start, NamesAControlGroupThatItCannotEnter) {
  const Fd null(open("/dev/null", O_RDONLY | O_CLOEXEC));
  ProcessOptions options = Shell("exit 0");
  options.groups = {null.get()};
  const Result<Process> process = Start(options);
  ASSERT_FALSE(process.ok());
  EXPECT_NE(process.status().message().find("control group"), std::string::npos)
      << process.status();
}

TEST(Start, MakesANewSessionSoThatTheGroupIsTheProcess) {
  Pipe pipe = MakePipe();
  ProcessOptions options = Shell("read line");
  options.stdin_fd = pipe.reader.get();
  const Result<Process> process = Start(options);
  ASSERT_TRUE(process.ok()) << process.status();
  EXPECT_EQ(getpgid(process->pid), process->pid);
  EXPECT_EQ(getsid(process->pid), process->pid);
  pipe.writer.Reset();
  EXPECT_TRUE(Reap(process->pidfd).ok());
}

TEST(Start, HandsOverTheNamedDescriptorsAndNoOthers) {
  Pipe pipe = MakePipe();
  const Fd leak(open("/dev/null", O_RDONLY));  // without close-on-exec, on purpose
  ProcessOptions options = Shell("echo there >&5; ls /proc/self/fd | tr '\\n' ' '");
  options.inherited = {{pipe.writer.get(), 5}};
  const auto [text, status] = RunToEnd(options);
  pipe.writer.Reset();
  EXPECT_EQ(ReadToEnd(pipe.reader), "there\n");
  EXPECT_EQ(text, "0 1 2 3 5 ");  // 3 is ls's own
}

TEST(Start, SwapsDescriptorsWhoseNumbersCross) {
  Pipe first = MakePipe();
  Pipe second = MakePipe();
  ProcessOptions options =
      Shell("echo first >/proc/self/fd/" + std::to_string(second.writer.get()) +
            "; echo second >/proc/self/fd/" + std::to_string(first.writer.get()));
  options.inherited = {{first.writer.get(), second.writer.get()},
                       {second.writer.get(), first.writer.get()}};
  RunToEnd(options);
  first.writer.Reset();
  second.writer.Reset();
  EXPECT_EQ(ReadToEnd(first.reader), "first\n");
  EXPECT_EQ(ReadToEnd(second.reader), "second\n");
}

TEST(Start, SaysWhenThereIsNoSuchProgram) {
  ProcessOptions options;
  options.argv = {"no-such-program-longhaul"};
  const Status by_path = Start(options).status();
  EXPECT_EQ(by_path.code(), Code::kNotFound);
  EXPECT_NE(by_path.message().find("no-such-program-longhaul"), std::string::npos);
  options.argv = {"/no/such/program"};
  EXPECT_EQ(Start(options).status().code(), Code::kNotFound);
}

TEST(Start, SaysWhenAFileMayNotBeRunOrTheFolderIsMissing) {
  ProcessOptions options;
  options.argv = {"/etc/passwd"};
  EXPECT_EQ(Start(options).status().code(), Code::kPermissionDenied);
  options = Shell("true");
  options.working_directory = "/no/such/folder";
  const Status missing = Start(options).status();
  EXPECT_NE(missing.message().find("/no/such/folder"), std::string::npos) << missing;
}

TEST(Start, LeavesNoZombieBehindAFailure) {
  ProcessOptions options;
  options.argv = {"/no/such/program"};
  EXPECT_FALSE(Start(options).ok());
  EXPECT_EQ(waitpid(-1, nullptr, WNOHANG), -1);
  EXPECT_EQ(errno, ECHILD);
}

TEST(Start, GivesDefaultSignalsToTheChild) {
  sigset_t blocked;
  sigset_t before;
  sigemptyset(&blocked);
  sigaddset(&blocked, SIGTERM);
  pthread_sigmask(SIG_BLOCK, &blocked, &before);
  const auto [text, status] = RunToEnd(Shell("kill -TERM $$; echo lived"));
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
  EXPECT_EQ(status.signal, SIGTERM);
  EXPECT_EQ(text, "");
}

TEST(Signal, EndsAProcessAndThePidfdSaysSo) {
  Pipe pipe = MakePipe();
  ProcessOptions options = Shell("read line");
  options.stdin_fd = pipe.reader.get();
  const Result<Process> process = Start(options);
  ASSERT_TRUE(process.ok()) << process.status();
  EXPECT_TRUE(Signal(process->pidfd, SIGKILL).ok());
  pollfd waiting{process->pidfd.get(), POLLIN, 0};
  ASSERT_EQ(poll(&waiting, 1, 5'000), 1);
  const Result<ExitStatus> status = Reap(process->pidfd);
  ASSERT_TRUE(status.ok()) << status.status();
  EXPECT_EQ(status->signal, SIGKILL);
  EXPECT_EQ(status->exit_code, -1);
  EXPECT_EQ(Signal(process->pidfd, SIGKILL).code(), Code::kNotFound);
}

TEST(SignalGroup, ReachesTheChildrenOfAProcess) {
  Pipe out = MakePipe();
  Pipe in = MakePipe();
  // The child keeps standard output open; the pipe's end shows that it has gone too.
  ProcessOptions options = Shell("(read line) <&0 & echo up; wait");
  options.stdin_fd = in.reader.get();
  options.stdout_fd = out.writer.get();
  const Result<Process> process = Start(options);
  ASSERT_TRUE(process.ok()) << process.status();
  out.writer.Reset();
  std::array<char, 3> up;
  ASSERT_EQ(read(out.reader.get(), up.data(), up.size()), 3);
  EXPECT_TRUE(SignalGroup(process->pid, SIGKILL).ok());
  EXPECT_EQ(ReadToEnd(out.reader), "");
  EXPECT_TRUE(Reap(process->pidfd).ok());
}

TEST(ReadProcessFacts, KnowsOurselvesAndNotTheDead) {
  const Result<ProcessFacts> ours = ReadProcessFacts(getpid());
  ASSERT_TRUE(ours.ok()) << ours.status();
  EXPECT_EQ(ours->state, 'R');
  EXPECT_EQ(ours->parent, getppid());
  EXPECT_GE(ours->cpu_ns, 0);
  EXPECT_EQ(ReadProcessFacts(0x3fffffff).status().code(), Code::kNotFound);
}

TEST(ProgramDirectory, HoldsThisTest) {
  const Result<std::string> folder = ProgramDirectory();
  ASSERT_TRUE(folder.ok());
  EXPECT_EQ(access((*folder + "/io_test").c_str(), X_OK), 0) << *folder;
}

TEST(CurrentEnvironment, AgreesWithGetenv) {
  ASSERT_EQ(setenv("LONGHAUL_PROCESS_TEST", "a=b", 1), 0);
  EXPECT_EQ(CurrentEnvironment().at("LONGHAUL_PROCESS_TEST"), "a=b");
}

TEST(RunProgram, ReturnsTheOutputAndHowTheProgramEnded) {
  const auto limit = std::chrono::minutes(1);
  const Result<ProgramEnd> failed = RunProgram(Shell("echo text; exec >&-; exit 3"), limit, 100);
  ASSERT_TRUE(failed.ok()) << failed.status();
  EXPECT_EQ(failed->output, "text\n");
  EXPECT_EQ(failed->status.exit_code, 3);
  const Result<ProgramEnd> endless = RunProgram(Shell("exec yes"), limit, 10'000);
  ASSERT_TRUE(endless.ok()) << endless.status();
  EXPECT_GE(endless->output.size(), 10'000u);
  EXPECT_EQ(endless->status.exit_code, -1) << "it printed too much";
  const Result<ProgramEnd> slow =
      RunProgram(Shell("exec sleep 100"), std::chrono::milliseconds(10), 100);
  ASSERT_TRUE(slow.ok()) << slow.status();
  EXPECT_EQ(slow->status.exit_code, -1);
}

}  // namespace
}  // namespace longhaul::io
