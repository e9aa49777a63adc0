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

#include "base/check.h"
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

class Listener {
 public:
  // Null: this machine has only the loopback network.
  static std::unique_ptr<Listener> OnOwnAddress() {
    const std::optional<sockaddr_in> address = OwnAddress();
    if (!address.has_value()) return nullptr;
    auto listener = std::make_unique<Listener>();
    listener->address_ = *address;
    auto* const any = reinterpret_cast<sockaddr*>(&listener->address_);
    socklen_t size = sizeof(listener->address_);
    CHECK(bind(listener->socket_.get(), any, size) == 0);
    CHECK(listen(listener->socket_.get(), 1) == 0);
    CHECK(getsockname(listener->socket_.get(), any, &size) == 0);
    return listener;
  }

  bool Connect(int client) const {
    return connect(client, reinterpret_cast<const sockaddr*>(&address_), sizeof(address_)) == 0;
  }
  io::Fd Accept() const { return io::Fd(accept(socket_.get(), nullptr, nullptr)); }

 private:
  sockaddr_in address_{};
  const io::Fd socket_{socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)};
};

TEST(SampleSessions, CountsTheTrafficOfItsOwnConnectionsOnly) {
  const std::unique_ptr<Listener> listener = Listener::OnOwnAddress();
  if (listener == nullptr) GTEST_SKIP() << "this machine has only the loopback network";
  const Child child;  // before the connection, which it would inherit
  const io::Fd client(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  ASSERT_TRUE(listener->Connect(client.get()));
  const io::Fd server = listener->Accept();
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

// A session's leader may end before its other processes.
TEST(SampleSessions, CountsTheTrafficOfASessionWithoutItsLeader) {
  const std::unique_ptr<Listener> listener = Listener::OnOwnAddress();
  if (listener == nullptr) GTEST_SKIP() << "this machine has only the loopback network";
  const pid_t leader = fork();
  if (leader == 0) {
    setsid();
    if (fork() != 0) _exit(0);
    const int client = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    const std::string bytes(100'000, 'x');
    const bool sent =
        listener->Connect(client) && send(client, bytes.data(), bytes.size(), MSG_WAITALL) > 0;
    for (char byte = 0; sent && recv(client, &byte, 1, 0) > 0;) continue;  // until the test ends it
    _exit(0);
  }
  ASSERT_EQ(waitpid(leader, nullptr, 0), leader);
  const io::Fd server = listener->Accept();
  std::string received(100'000, 0);
  ASSERT_EQ(recv(server.get(), received.data(), received.size(), MSG_WAITALL), 100'000);
  const ActivitySample sample = SampleSessions({leader})[leader];
  EXPECT_EQ(sample.processes, 1u);
  EXPECT_GE(sample.network_bytes, 100'000u);
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
