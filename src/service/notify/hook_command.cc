#include <fcntl.h>
#include <poll.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <string>
#include <utility>

#include "base/text.h"
#include "io/clock.h"
#include "io/fd.h"
#include "io/process/process.h"
#include "service/notify/hook_delivery.h"

namespace longhaul::service {
namespace {

constexpr size_t kKeptErrors = 4'096;
constexpr Duration kDeadlinePoll = std::chrono::milliseconds(100);  // it may be moved meanwhile

// A file in memory with the message: a command that does not read it cannot block us.
Result<io::Fd> InputOf(const std::string& text) {
  io::Fd file(::memfd_create("hook", MFD_CLOEXEC));
  if (!file.valid()) return FromErrno(errno, "cannot make the input of a hook");
  size_t written = 0;
  while (written < text.size()) {
    const ssize_t got = ::write(file.get(), text.data() + written, text.size() - written);
    if (got <= 0) return FromErrno(errno, "cannot write the input of a hook");
    written += static_cast<size_t>(got);
  }
  ::lseek(file.get(), 0, SEEK_SET);
  return file;
}

// Reads what is there and keeps its end.
void ReadErrors(const io::Fd& pipe, std::string& errors) {
  std::array<char, 1024> buffer;
  ssize_t got = 0;
  // Bounded, so that a command that writes without end does not keep us here.
  for (int i = 0; i < 64 && (got = ::read(pipe.get(), buffer.data(), buffer.size())) > 0; ++i) {
    errors.append(buffer.data(), static_cast<size_t>(got));
    if (errors.size() > kKeptErrors) errors.erase(0, errors.size() - kKeptErrors);
  }
}

std::string LastLineOf(const std::string& errors) {
  const std::string_view text = Trim(errors);
  const size_t line = text.rfind('\n');
  return Printable(line == std::string_view::npos ? text : text.substr(line + 1), 200);
}

// Waits for the end of the process. Returns whether it ended in time.
bool AwaitEnd(const io::Process& process, const io::Fd& pipe, Instant limit,
              const HookDeadline& deadline, std::string& errors) {
  while (true) {
    const Duration left = std::min(limit, deadline.at()) - io::MonotonicNow();
    if (left <= Duration::zero()) return false;
    std::array<pollfd, 2> ready = {pollfd{process.pidfd.get(), POLLIN, 0},
                                   pollfd{pipe.get(), POLLIN, 0}};
    const auto wait =
        std::chrono::duration_cast<std::chrono::milliseconds>(std::min(left, kDeadlinePoll));
    const int polled = ::poll(ready.data(), ready.size(), static_cast<int>(wait.count()) + 1);
    if (polled < 0 && errno != EINTR) return false;
    if (polled <= 0) continue;
    if ((ready[1].revents & POLLIN) != 0) ReadErrors(pipe, errors);
    if (ready[0].revents != 0) return true;
    // The command has closed its output and still runs.
    if ((ready[1].revents & (POLLHUP | POLLIN)) == POLLHUP) {
      pollfd end{process.pidfd.get(), POLLIN, 0};
      if (::poll(&end, 1, static_cast<int>(wait.count()) + 1) > 0) return true;
    }
  }
}

io::ProcessOptions OptionsOf(const spec::HookSpec& hook, const HookMessage& message,
                             const std::string& run_directory) {
  io::ProcessOptions options;
  options.argv = hook.command;
  options.environment = io::CurrentEnvironment();
  options.environment["LONGHAUL_EVENT"] = std::string(NameOf(message.event));
  options.environment["LONGHAUL_JOB"] = message.job;
  options.environment["LONGHAUL_RUN_DIRECTORY"] = run_directory;
  options.environment["LONGHAUL_TEXT"] = message.text;
  options.signal_on_parent_death = SIGKILL;
  return options;
}

}  // namespace

Result<pid_t> HookProcesses::Start(const std::function<Result<pid_t>()>& start) {
  const std::lock_guard lock(mutex_);
  const Result<pid_t> pid = start();
  if (pid.ok()) pids_.insert(*pid);
  return pid;
}

void HookProcesses::End(pid_t pid, const std::function<void()>& reap) {
  const std::lock_guard lock(mutex_);
  reap();
  pids_.erase(pid);
}

bool HookProcesses::Contains(pid_t pid) const {
  const std::lock_guard lock(mutex_);
  return pids_.contains(pid);
}

HookOutcome RunHookCommand(const spec::HookSpec& hook, const HookMessage& message,
                           const std::string& run_directory, const HookDeadline& deadline,
                           HookProcesses& processes) {
  const Result<io::Fd> input = InputOf(message.json);
  if (!input.ok()) return {input.status()};
  std::array<int, 2> ends{};
  if (::pipe2(ends.data(), O_CLOEXEC | O_NONBLOCK) != 0) {
    return {FromErrno(errno, "cannot make a pipe")};
  }
  const io::Fd pipe(ends[0]);
  io::Fd writer(ends[1]);
  const io::Fd nowhere(::open("/dev/null", O_WRONLY | O_CLOEXEC));
  io::ProcessOptions options = OptionsOf(hook, message, run_directory);
  options.stdin_fd = input->get();
  options.stdout_fd = nowhere.get();
  options.stderr_fd = writer.get();
  io::Process process;
  const Result<pid_t> pid = processes.Start([&]() -> Result<pid_t> {
    ASSIGN_OR_RETURN(process, io::Start(options));
    return process.pid;
  });
  if (!pid.ok()) return {pid.status()};
  writer.Reset();
  std::string errors;
  const Instant limit = io::MonotonicNow() + hook.timeout;
  const bool ended = AwaitEnd(process, pipe, limit, deadline, errors);
  // Also what a command that has ended leaves behind in its group. Until it is reaped its number
  // cannot be another group's.
  (void)io::SignalGroup(process.pid, SIGKILL);
  Result<io::ExitStatus> status = InternalError("it was not reaped");
  processes.End(*pid, [&] { status = io::Reap(process.pidfd); });
  if (!ended) {
    return {
        DeadlineExceeded("it was killed because it did not end within " + ToString(hook.timeout))};
  }
  ReadErrors(pipe, errors);
  if (!status.ok()) return {status.status()};
  if (status->exit_code == 0 && status->signal == 0) return {};
  const std::string how = status->signal != 0
                              ? "it was ended by signal " + std::to_string(status->signal)
                              : "it exited with code " + std::to_string(status->exit_code);
  const std::string last = LastLineOf(errors);
  return {Unavailable(how + (last.empty() ? "" : ": " + last))};
}

}  // namespace longhaul::service
