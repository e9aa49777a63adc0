// `longhaul stack-reader` as a process that an agent starts, with programs that hang.
#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/ptrace.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <csignal>
#include <set>
#include <string>
#include <vector>

#include "io/clock.h"
#include "io/event_loop.h"
#include "io/process/process.h"
#include "io/process/user_account.h"
#include "service/agent/native_stacks/native_stack_process.h"

namespace longhaul::bin {
namespace {

using service::NativeStack;
using service::NativeStackOptions;
using service::NativeStackProcess;
using service::NativeStacks;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;
using testing::SizeIs;

char StateOf(pid_t process) {
  const auto facts = io::ReadProcessFacts(process);
  return facts.ok() ? facts->state : '?';
}

// Blocks until the process is in the state.
bool AwaitState(pid_t process, char state) {
  const Instant limit = io::Now() + std::chrono::seconds(10);
  while (StateOf(process) != state && io::Now() < limit) usleep(1'000);
  return StateOf(process) == state;
}

// hanging_program, in its mode; ended by the destructor.
class Hanging {
 public:
  explicit Hanging(const std::string& mode) {
    std::array<int, 2> ends{};
    EXPECT_EQ(pipe2(ends.data(), O_CLOEXEC), 0);
    const io::Fd output(ends[0]);
    io::Fd theirs(ends[1]);
    io::ProcessOptions options;
    options.argv = {"hanging_program", mode};
    options.program = *io::ProgramDirectory() + "/hanging_program";
    options.stdout_fd = theirs.get();
    options.signal_on_parent_death = SIGKILL;
    auto process = io::Start(options);
    EXPECT_TRUE(process.ok()) << process.status();
    if (process.ok()) process_ = *std::move(process);
    theirs.Reset();
    char byte = 0;
    EXPECT_EQ(read(output.get(), &byte, 1), 1);
    EXPECT_TRUE(AwaitState(pid(), mode == "stop" ? 'T' : 'S'));
  }
  ~Hanging() { End(); }
  Hanging(const Hanging&) = delete;
  Hanging& operator=(const Hanging&) = delete;

  pid_t pid() const { return process_.pid; }
  void End() {
    if (!process_.pidfd.valid()) return;
    (void)io::Signal(process_.pidfd, SIGKILL);
    (void)io::Reap(process_.pidfd);
    process_.pidfd.Reset();
  }

 private:
  io::Process process_;
};

NativeStackOptions Options() {
  return {{*io::ProgramDirectory() + "/longhaul", "stack-reader"}, {}, std::chrono::seconds(30)};
}

NativeStacks Read(const std::vector<pid_t>& processes, NativeStackOptions options = Options()) {
  const auto loop = *io::EventLoop::Create();
  NativeStackProcess reader(*loop, std::move(options));
  NativeStacks result;
  reader.Read(processes, [&](NativeStacks found) {
    result = std::move(found);
    loop->Stop();
  });
  loop->Run();
  return result;
}

std::string Joined(const std::vector<std::string>& calls) {
  std::string text;
  for (const std::string& call : calls) text += call + "\n";
  return text;
}

TEST(StackReader, NamesTheFunctionInWhichAProgramHangs) {
  const Hanging one("wait");
  const Hanging two("sleep");
  const Hanging three("wait");
  const NativeStacks read = Read({one.pid(), two.pid(), three.pid()});
  EXPECT_THAT(read.problem, IsEmpty());
  ASSERT_THAT(read.stacks, SizeIs(3));
  const NativeStack& first = read.stacks.at(one.pid());
  EXPECT_THAT(Joined(first.main_calls),
              HasSubstr("read\nhanging::wait_for_a_byte\nhanging::in_a_template<>\nmain\n"));
  EXPECT_EQ(read.stacks.at(three.pid()).main_calls, first.main_calls) << "they do the same";
  EXPECT_THAT(Joined(read.stacks.at(two.pid()).main_calls),
              HasSubstr("sleep\nhanging::sleep_forever\nmain\n"));
  EXPECT_THAT(first.text, HasSubstr("  hanging::sleep_forever\n")) << "of the second thread";
}

TEST(StackReader, LeavesTheStateOfProcessesAsItIs) {
  const Hanging stopped("stop");
  const Hanging waiting("wait");
  const NativeStacks read = Read({stopped.pid(), waiting.pid()});
  EXPECT_THAT(Joined(read.stacks.at(stopped.pid()).main_calls), HasSubstr("hanging::stop_itself"));
  EXPECT_EQ(StateOf(stopped.pid()), 'T');
  EXPECT_EQ(StateOf(waiting.pid()), 'S');
}

TEST(StackReader, OfProcessesThatHaveEndedItReadsNothing) {
  Hanging ended("wait");
  const Hanging other("wait");
  const pid_t pid = ended.pid();
  ended.End();
  const NativeStacks read = Read({pid, other.pid()});
  EXPECT_EQ(read.stacks.at(pid).text, "! it has ended\n");
  EXPECT_THAT(read.stacks.at(other.pid()).main_calls, Not(IsEmpty()));
}

TEST(StackReader, StatesThatAnotherProcessTracesIt) {
  const Hanging traced("wait");
  ASSERT_EQ(ptrace(PTRACE_SEIZE, traced.pid(), nullptr, nullptr), 0);
  const NativeStacks read = Read({traced.pid()});
  EXPECT_THAT(read.stacks.at(traced.pid()).text,
              HasSubstr("! thread " + std::to_string(traced.pid()) + ": process " +
                        std::to_string(getpid()) + " traces it already, such as a debugger"));
}

// The reader is killed at any moment of its work: its processes continue.
TEST(StackReader, ThatIsKilledLeavesNoProcessStopped) {
  const Hanging one("wait");
  const Hanging two("sleep");
  const std::set<pid_t> processes = {one.pid(), two.pid()};
  for (int i = 0; i < 30; ++i) {
    NativeStackOptions options = Options();
    options.limit = std::chrono::milliseconds(i);
    Read({one.pid(), two.pid()}, options);
    for (const pid_t process : processes) {
      ASSERT_TRUE(AwaitState(process, 'S')) << "after " << i << " ms";
    }
  }
}

TEST(StackReader, IsKilledAtItsLimit) {
  NativeStackOptions options;
  options.command = {"/bin/sh", "-c",
                     "echo process 7; echo thread 7; echo '  main'; exec sleep 99"};
  options.limit = std::chrono::seconds(1);
  const NativeStacks read = Read({1}, options);
  EXPECT_THAT(read.problem, HasSubstr("because reading them took too long"));
  EXPECT_EQ(Joined(read.stacks.at(7).main_calls), "main\n");
}

TEST(StackReader, ThatFailsIsReported) {
  NativeStackOptions options;
  options.command = {"/bin/sh", "-c", "echo process 7; echo '  main'; kill -SEGV $$"};
  EXPECT_THAT(Read({1}, options).problem, HasSubstr("the reader has ended with signal 11"));
  options.command = {"/no/such/program"};
  EXPECT_THAT(Read({1}, options).problem, HasSubstr("cannot run /no/such/program"));
  options.command = {"/bin/sh", "-c", "yes '  main'"};
  EXPECT_THAT(Read({1}, options).problem, HasSubstr("cut after 1 MiB"));
  EXPECT_THAT(Read({}, options).problem, IsEmpty());
}

// The reader becomes the user of the workers. With the capability it reads also a process that
// protects itself; without it, it says what is needed.
TEST(StackReader, OfAnotherUserNeedsTheCapability) {
  const auto nobody = io::FindUser("nobody");
  ASSERT_TRUE(nobody.ok());
  if (geteuid() != 0) GTEST_SKIP() << "not root";
  const Hanging protects_itself("protected");
  NativeStackOptions options = Options();
  options.user = *nobody;
  const NativeStacks read = Read({protects_itself.pid()}, options);
  ASSERT_THAT(read.stacks, SizeIs(1)) << read.problem;
  EXPECT_THAT(Joined(read.stacks.begin()->second.main_calls),
              HasSubstr("hanging::wait_for_a_byte"));
  const std::vector<std::string> limited = {"/usr/bin/setpriv", "--bounding-set=-sys_ptrace"};
  options.command.insert(options.command.begin(), limited.begin(), limited.end());
  const NativeStacks refused = Read({protects_itself.pid()}, options);
  ASSERT_THAT(refused.stacks, SizeIs(1)) << refused.problem;
  EXPECT_THAT(refused.stacks.begin()->second.text, HasSubstr("give the agent CAP_SYS_PTRACE"));
}

}  // namespace
}  // namespace longhaul::bin
