#include "service/agent/activity/process_activity.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstring>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <thread>

#include "io/fd.h"
#include "io/files/file.h"
#include "service/agent/activity/stack_reader.h"
#include "service/agent/activity/stack_text.h"
#include "service/agent/output/worker_output.h"

namespace longhaul::service::process_activity_test {
namespace {

// A child that leads a session, and waits to be killed.
class Child {
 public:
  explicit Child(bool handles_signal = false) : pid_(fork()) {
    if (pid_ == 0) {
      if (handles_signal) (void)std::signal(kStackSignal, [](int) { _exit(9); });
      setsid();
      for (;;) pause();
    }
    while (getsid(pid_) != pid_) usleep(100);
  }
  ~Child() {
    kill(pid_, SIGKILL);
    waitpid(pid_, nullptr, 0);
  }
  pid_t pid() const { return pid_; }

 private:
  const pid_t pid_;
};

TEST(NumberOfLine, FindsWholeNamesAtTheBeginningsOfLines) {
  const char* text =
      "State:\tS\nTracerPid:\t12\nnonvoluntary_ctxt_switches:\t3\n"
      "voluntary_ctxt_switches:\t44\n";
  EXPECT_EQ(NumberOfLine(text, "TracerPid:"), 12u);
  EXPECT_EQ(NumberOfLine(text, "voluntary_ctxt_switches:"), 44u);
  EXPECT_EQ(NumberOfLine(text, "State:"), 0u) << "no number";
  EXPECT_EQ(NumberOfLine("", "State:"), 0u);
}

TEST(NetworkBytes, AreThoseOfAllInterfacesButTheLoopbackOne) {
  const char* text =
      "Inter-|   Receive                            |  Transmit\n"
      " face |bytes    packets errs drop fifo frame compressed multicast|bytes    packets\n"
      "    lo: 5000 1 0 0 0 0 0 0 5000 1 0 0 0 0 0 0\n"
      "  eth0:     100 2 0 0 0 0 0 0     7 3 0 0 0 0 0 0\n"
      " eth10:1000 2 0 0 0 0 0 0 20 3 0 0 0 0 0 0\n";
  EXPECT_EQ(NetworkBytes(text), 1'127u);
  EXPECT_EQ(NetworkBytes(""), 0u);
  EXPECT_EQ(NetworkBytes("eth0:"), 0u);
}

TEST(SampleSessions, SeesAStoppedProcessAndThatItGoesOn) {
  const Child child;
  EXPECT_FALSE(SampleSessions({child.pid()})[child.pid()].stopped);
  kill(child.pid(), SIGSTOP);
  ASSERT_EQ(waitpid(child.pid(), nullptr, WUNTRACED), child.pid());
  const ActivitySample stopped = SampleSessions({child.pid()})[child.pid()];
  EXPECT_TRUE(stopped.stopped);
  EXPECT_EQ(stopped.processes, 1u);
  EXPECT_FALSE(stopped.debugged);
  kill(child.pid(), SIGCONT);
  ASSERT_EQ(waitpid(child.pid(), nullptr, WCONTINUED), child.pid());
  EXPECT_FALSE(SampleSessions({child.pid()})[child.pid()].stopped);
}

TEST(SampleSessions, CountsWhatThisProcessUses) {
  const pid_t session = getsid(0);
  const ActivitySample before = SampleSessions({session})[session];
  EXPECT_GT(before.processes, 0u);
  volatile uint64_t work = 0;
  ActivitySample after = before;
  for (int i = 0; i < 1'000 && after.cpu_ns <= before.cpu_ns; ++i) {
    for (int j = 0; j < 10'000'000; ++j) work = work + 1;
    after = SampleSessions({session})[session];
  }
  EXPECT_GT(after.cpu_ns, before.cpu_ns);
  EXPECT_GT(after.io_bytes, before.io_bytes) << "it has read /proc";
}

// An address of this machine that is not one of the loopback network; nothing: it has none.
std::optional<sockaddr_in> OwnAddress() {
  ifaddrs* all = nullptr;
  if (getifaddrs(&all) != 0) return std::nullopt;
  std::optional<sockaddr_in> found;
  for (const ifaddrs* each = all; each != nullptr; each = each->ifa_next) {
    const bool up = (each->ifa_flags & IFF_UP) != 0 && (each->ifa_flags & IFF_LOOPBACK) == 0;
    if (!up || each->ifa_addr == nullptr || each->ifa_addr->sa_family != AF_INET) continue;
    sockaddr_in address{};
    std::memcpy(&address, each->ifa_addr, sizeof(address));
    address.sin_port = 0;
    found = address;
  }
  freeifaddrs(all);
  return found;
}

TEST(SampleSessions, CountsTheTrafficOfItsOwnConnectionsOnly) {
  std::optional<sockaddr_in> address = OwnAddress();
  if (!address.has_value()) GTEST_SKIP() << "this machine has only the loopback network";
  auto* const any = reinterpret_cast<sockaddr*>(&*address);
  socklen_t size = sizeof(*address);
  const io::Fd listener(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  ASSERT_EQ(bind(listener.get(), any, size), 0);
  ASSERT_EQ(listen(listener.get(), 1), 0);
  ASSERT_EQ(getsockname(listener.get(), any, &size), 0);
  const Child child;  // before the connection, which it would inherit
  const io::Fd client(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  ASSERT_EQ(connect(client.get(), any, size), 0);
  const io::Fd server(accept(listener.get(), nullptr, nullptr));
  const std::set<pid_t> sessions = {getsid(0), child.pid()};
  std::map<pid_t, ActivitySample> before = SampleSessions(sessions);
  std::string bytes(1'000'000, 'x');
  std::thread reader([&server] {
    std::string part(1 << 16, 0);
    for (ssize_t got = 0, sum = 0; sum < 1'000'000; sum += got) {
      got = recv(server.get(), part.data(), part.size(), 0);
      if (got <= 0) return;
    }
  });
  EXPECT_EQ(send(client.get(), bytes.data(), bytes.size(), MSG_WAITALL),
            static_cast<ssize_t>(bytes.size()));
  reader.join();
  std::map<pid_t, ActivitySample> after = SampleSessions(sessions);
  EXPECT_GE(after[getsid(0)].network_bytes - before[getsid(0)].network_bytes, 1'900'000u);
  EXPECT_EQ(after[child.pid()].network_bytes, before[child.pid()].network_bytes);
}

TEST(SampleSessions, ASessionWithoutProcessesIsEmpty) {
  EXPECT_EQ(SampleSessions({999'999'999})[999'999'999].processes, 0u);
}

TEST(ThreadsText, NamesTheSystemCallOfAThread) {
  const Child child;
  const std::string text = ThreadsText(child.pid());
  EXPECT_NE(text.find("thread " + std::to_string(child.pid())), std::string::npos) << text;
  EXPECT_NE(text.find("state "), std::string::npos) << text;
}

// Reads the stack of the process, which has this file.
StackOfWorker ReadStack(pid_t process, const std::string& file) {
  const std::unique_ptr<io::EventLoop> loop = *io::EventLoop::Create();
  StackReader reader(*loop, {}, ReadWorkerFile);
  std::vector<StackOfWorker> found;
  reader.Read({{3, process, file}}, [&](std::vector<StackOfWorker> stacks) {
    found = std::move(stacks);
    loop->Stop();
  });
  loop->Run();
  return found.empty() ? StackOfWorker{} : found[0];
}

// A signal that a process does not handle would end it.
TEST(StackReader, LeavesAProcessAloneThatDoesNotHandleTheSignal) {
  const Child child;
  const std::string file = testing::TempDir() + "/stack-" + std::to_string(child.pid());
  ASSERT_TRUE(WriteWorkerFile(file, "").ok());
  EXPECT_EQ(ReadStack(child.pid(), file).rank, 3u);
  EXPECT_EQ(waitpid(child.pid(), nullptr, WNOHANG), 0) << "it lives";
  unlink(file.c_str());
}

TEST(StackReader, LeavesAProcessAloneThatUsesTheSignalForSomethingElse) {
  const Child child(true);
  EXPECT_EQ(ReadStack(child.pid(), testing::TempDir() + "/no-such-file").rank, 3u);
  EXPECT_EQ(ReadStack(child.pid(), "").rank, 3u);
  EXPECT_EQ(waitpid(child.pid(), nullptr, WNOHANG), 0) << "it lives";
}

// A process that writes another line number into its file each time it is asked for its stack.
class Talker {
 public:
  explicit Talker(const std::string& file) : pid_(fork()) {
    if (pid_ != 0) return;
    descriptor_ = open(file.c_str(), O_WRONLY | O_APPEND);
    signal(kStackSignal, [](int) {
      constexpr char kHead[] =
          "Current thread 0x1 (most recent call first):\n  File \"/a/b.py\", line ";
      const char line[] = {static_cast<char>('0' + ++calls_), '\0'};
      constexpr char kTail[] = " in work\n";
      (void)!write(descriptor_, kHead, sizeof(kHead) - 1);
      (void)!write(descriptor_, line, 1);
      (void)!write(descriptor_, kTail, sizeof(kTail) - 1);
    });
    while (true) pause();
  }
  ~Talker() {
    kill(pid_, SIGKILL);
    waitpid(pid_, nullptr, 0);
  }
  Talker(const Talker&) = delete;
  Talker& operator=(const Talker&) = delete;
  pid_t pid() const { return pid_; }

 private:
  static inline int descriptor_ = -1;
  static inline int calls_ = 0;
  pid_t pid_;
};

// The file has the stacks of all readings.
TEST(StackReader, ReadsTheStackOfThisTimeAndNotOfAnEarlierOne) {
  const std::string file = testing::TempDir() + "/stack-talker-" + std::to_string(getpid());
  ASSERT_TRUE(WriteWorkerFile(file, "").ok());
  const Talker talker(file);
  const auto handles = [&talker] {
    const Result<std::string> status =
        io::ReadText("/proc/" + std::to_string(talker.pid()) + "/status", 1 << 16);
    return status.ok() && HandlesSignal(*status, kStackSignal);
  };
  while (!handles()) usleep(1'000);
  EXPECT_EQ(ReadStack(talker.pid(), file).calls, "work (a/b.py:1)\n");
  EXPECT_EQ(ReadStack(talker.pid(), file).calls, "work (a/b.py:2)\n");
  unlink(file.c_str());
}

TEST(StackReader, OfAProcessThatHasEndedThereIsNone) {
  pid_t process = 0;
  {
    const Child child;
    process = child.pid();
  }
  const StackOfWorker stack = ReadStack(process, "");
  EXPECT_EQ(stack.calls, "");
  EXPECT_EQ(stack.text, "");
}

}  // namespace
}  // namespace longhaul::service::process_activity_test
