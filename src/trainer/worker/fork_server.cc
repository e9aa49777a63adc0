#include "trainer/worker/fork_server.h"

#include <dirent.h>
#include <fcntl.h>
#include <linux/close_range.h>
#include <poll.h>
#include <sched.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "io/clock.h"
#include "io/fd.h"
#include "io/net/socket.h"
#include "worker_api/fork_server.h"

namespace longhaul::trainer {
namespace {

constexpr Duration kReparentLimit = std::chrono::seconds(5);

[[noreturn]] void GiveUp(const char* what) {
  std::fprintf(stderr, "longhaul-trainer: %s\n", what);
  _exit(1);
}

// A forked process inherits handlers and the mask of blocked signals. A worker must start as if it
// had been executed.
void ResetSignals() {
  for (int number = 1; number < NSIG; ++number) signal(number, SIG_DFL);
  sigset_t none;
  sigemptyset(&none);
  sigprocmask(SIG_SETMASK, &none, nullptr);
}

// The first actions of a worker. `agent` is the process that must become its parent.
void BecomeWorker(const worker_api::WarmStart& start, const io::UnixMessage& message, pid_t agent) {
  const int null = open("/dev/null", O_RDONLY);
  if (dup2(message.fds[0].get(), STDOUT_FILENO) < 0 ||
      dup2(message.fds[1].get(), STDERR_FILENO) < 0 || null < 0 || dup2(null, STDIN_FILENO) < 0) {
    GiveUp("cannot take over the worker's output");
  }
  close_range(3, ~0U, 0);
  // Our parent ends right after the fork and the agent, the nearest subreaper, inherits us. Only
  // from then on does the death signal mean the agent's death.
  const Instant limit = io::MonotonicNow() + kReparentLimit;
  while (getppid() != agent) {
    if (io::MonotonicNow() > limit) GiveUp("the agent that asked for this worker is gone");
    sched_yield();
  }
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (getppid() != agent) GiveUp("the agent that asked for this worker is gone");
  clearenv();
  for (const auto& [key, value] : start.environment) setenv(key.c_str(), value.c_str(), 1);
}

// Forks twice. Returns the worker's pid in the parent, or an error number as a negative; in the
// worker it calls `run`.
// The process in between ends at once, so the worker is reparented to the agent and the agent can
// reap it.
pid_t ForkWorker(const worker_api::WarmStart& start, const io::UnixMessage& message, pid_t agent,
                 const std::function<void()>& run) {
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0) return -errno;
  const io::Fd from(ends[0]);
  io::Fd to(ends[1]);
  const pid_t between = fork();
  if (between < 0) return -errno;
  if (between == 0) {
    const auto send = [&to](pid_t answer) {
      return write(to.get(), &answer, sizeof(answer)) == sizeof(answer);
    };
    const pid_t worker = fork();
    if (worker == 0) {
      // The agent signals the process group as soon as it has the number: the group must exist by
      // then, or the signal is lost.
      setsid();
      ResetSignals();
      if (!send(getpid())) _exit(1);
      BecomeWorker(start, message, agent);
      run();
      _exit(0);
    }
    _exit(worker < 0 && !send(-errno) ? 1 : 0);
  }
  to.Reset();
  pid_t answer = -EIO;
  ssize_t got = -1;
  do {
    got = read(from.get(), &answer, sizeof(answer));
  } while (got < 0 && errno == EINTR);
  if (got != sizeof(answer)) answer = -EIO;
  while (waitpid(between, nullptr, 0) < 0 && errno == EINTR) {
  }
  return answer;
}

}  // namespace

int ThreadCount() {
  const std::unique_ptr<DIR, int (*)(DIR*)> tasks(opendir("/proc/self/task"), closedir);
  int count = 0;
  while (tasks != nullptr) {
    const dirent* entry = readdir(tasks.get());
    if (entry == nullptr) break;
    count += entry->d_name[0] != '.';
  }
  return count;
}

Status ServeForkServer(int fd, const std::function<void()>& run) {
  const io::Fd socket(fd);
  const pid_t agent = getppid();
  while (true) {
    pollfd waiting{socket.get(), POLLIN, 0};
    if (poll(&waiting, 1, -1) < 0 && errno != EINTR) return FromErrno(errno, "cannot wait");
    auto received = io::ReceiveMessage(socket, worker_api::kMaxWarmRequestBytes);
    if (!received.ok()) {
      if (received.status().code() == Code::kResourceExhausted) continue;
      return received.status();
    }
    if (!received->has_value()) continue;
    const io::UnixMessage& message = **received;
    if (message.bytes.empty()) return {};
    worker_api::WarmReply reply;
    const auto start = worker_api::ParseWarmRequest(message.bytes);
    pid_t worker = -EINVAL;
    if (start.ok() && message.fds.size() == 2) {
      reply.id = start->id;
      // A fork copies only the thread that calls it: what the others held would stay held.
      worker = ThreadCount() == 1 ? ForkWorker(*start, message, agent, run) : -EBUSY;
    }
    reply.pid = worker > 0 ? worker : 0;
    reply.error_number = static_cast<uint32_t>(worker > 0 ? 0 : -worker);
    const Status sent = io::SendMessage(socket, std::as_bytes(std::span(&reply, 1)));
    if (!sent.ok()) return sent;
  }
}

}  // namespace longhaul::trainer
