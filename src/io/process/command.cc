#include "io/process/command.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <thread>
#include <utility>

#include "base/text.h"
#include "io/clock.h"
#include "io/fd.h"
#include "io/process/process_tree.h"

namespace longhaul::io {
namespace {

constexpr size_t kKeptErrors = 4'096;
constexpr Duration kDeadlinePoll = std::chrono::milliseconds(100);  // it may be moved meanwhile
constexpr int kReadsAtOnce = 64;  // so that a command that writes without end does not keep us
constexpr int kKillTries = 50;
constexpr Duration kKillPause = std::chrono::milliseconds(10);

// A file in memory with the input: a command that does not read it cannot block us.
Result<Fd> InputOf(const std::string& text) {
  Fd file(::memfd_create("command", MFD_CLOEXEC));
  if (!file.valid()) return FromErrno(errno, "cannot make the input of a command");
  size_t written = 0;
  while (written < text.size()) {
    const ssize_t got = ::write(file.get(), text.data() + written, text.size() - written);
    if (got <= 0) return FromErrno(errno, "cannot write the input of a command");
    written += static_cast<size_t>(got);
  }
  ::lseek(file.get(), 0, SEEK_SET);
  return file;
}

// One of the two outputs of a command.
class CommandPipe {
 public:
  static Result<CommandPipe> Create() {
    std::array<int, 2> ends{};
    if (::pipe2(ends.data(), O_CLOEXEC) != 0) return FromErrno(errno, "cannot make a pipe");
    CommandPipe pipe;
    pipe.reader_ = Fd(ends[0]);
    pipe.writer_ = Fd(ends[1]);
    // Only of our end: the command expects a pipe that blocks.
    (void)::fcntl(ends[0], F_SETFL, O_NONBLOCK);
    return pipe;
  }

  int writer() const { return writer_.get(); }
  void CloseWriter() { writer_.Reset(); }
  pollfd Polled() const { return {closed_ ? -1 : reader_.get(), POLLIN, 0}; }

  // Reads what is there.
  template <typename Take>
  void Read(const Take& take) {
    std::array<char, 4096> buffer;
    for (int i = 0; i < kReadsAtOnce && !closed_; ++i) {
      const ssize_t got = ::read(reader_.get(), buffer.data(), buffer.size());
      if (got < 0) return;
      closed_ = got == 0;
      take(std::string_view(buffer.data(), static_cast<size_t>(got)));
    }
  }

 private:
  CommandPipe() = default;

  Fd reader_;
  Fd writer_;
  bool closed_ = false;
};

std::string LastLineOf(const std::string& errors) {
  const std::string_view text = Trim(errors);
  const size_t line = text.rfind('\n');
  return Printable(line == std::string_view::npos ? text : text.substr(line + 1), 200);
}

// A command that runs, and what it has written so far.
struct RunningCommand {
  Process process;
  CommandPipe output;
  CommandPipe errors;
  size_t most_output = 0;
  std::string kept_output;
  std::string kept_errors;
  bool cut = false;

  void Read() {
    output.Read([this](std::string_view text) {
      const size_t room = most_output - kept_output.size();
      cut = cut || text.size() > room;
      kept_output.append(text.substr(0, room));
    });
    errors.Read([this](std::string_view text) {
      kept_errors.append(text);
      if (kept_errors.size() > kKeptErrors) kept_errors.erase(0, kept_errors.size() - kKeptErrors);
    });
  }

  // Returns whether it ended in time.
  bool AwaitEnd(Instant limit, const CommandDeadline& deadline) {
    while (true) {
      const Duration left = std::min(limit, deadline.at()) - MonotonicNow();
      if (left <= Duration::zero()) return false;
      std::array<pollfd, 3> ready = {pollfd{process.pidfd.get(), POLLIN, 0}, output.Polled(),
                                     errors.Polled()};
      const auto wait =
          std::chrono::duration_cast<std::chrono::milliseconds>(std::min(left, kDeadlinePoll));
      const int polled = ::poll(ready.data(), ready.size(), static_cast<int>(wait.count()) + 1);
      if (polled < 0 && errno != EINTR) return false;
      if (polled <= 0) continue;
      Read();
      if (ready[0].revents != 0) return true;
    }
  }
};

// Reaps what the command has left behind, which is ours if this process is a subreaper, and kills
// those that have left its group. Bounded: a process that waits in the kernel stays.
void EndDescendants(pid_t group, const std::string& mark) {
  std::vector<pid_t> killed;
  for (int i = 0; i < kKillTries; ++i) {
    for (const pid_t child : OwnChildren()) {
      if (!StartedWith(child, mark)) continue;
      (void)::kill(child, SIGKILL);  // its number is not another's before it is reaped
      if (std::ranges::find(killed, child) == killed.end()) killed.push_back(child);
    }
    bool left = !killed.empty();  // their children become ours
    std::erase_if(killed, [](pid_t child) { return ::waitpid(child, nullptr, WNOHANG) != 0; });
    siginfo_t info{};
    do {
      info.si_pid = 0;
      if (::waitid(P_PGID, static_cast<id_t>(group), &info, WEXITED | WNOHANG) != 0) break;
      left = true;
    } while (info.si_pid != 0);
    if (!left) return;
    std::this_thread::sleep_for(kKillPause);
  }
}

}  // namespace

Result<pid_t> CommandProcesses::Start(const std::function<Result<pid_t>()>& start) {
  const std::lock_guard lock(mutex_);
  const Result<pid_t> pid = start();
  if (pid.ok()) pids_.insert(*pid);
  return pid;
}

void CommandProcesses::End(pid_t pid, const std::function<void()>& reap) {
  const std::lock_guard lock(mutex_);
  reap();
  pids_.erase(pid);
}

bool CommandProcesses::Contains(pid_t pid) const {
  const std::lock_guard lock(mutex_);
  return pids_.contains(pid);
}

Result<CommandOutcome> RunCommand(const CommandOptions& options, const CommandDeadline& deadline,
                                  CommandProcesses& processes) {
  ASSIGN_OR_RETURN(const Fd input, InputOf(options.input));
  ASSIGN_OR_RETURN(CommandPipe output, CommandPipe::Create());
  ASSIGN_OR_RETURN(CommandPipe errors, CommandPipe::Create());
  const Fd nowhere(::open("/dev/null", O_WRONLY | O_CLOEXEC));
  ProcessOptions start;
  start.argv = options.argv;
  start.environment = options.environment;
  if (const size_t equals = options.mark.find('='); equals != std::string::npos) {
    start.environment[options.mark.substr(0, equals)] = options.mark.substr(equals + 1);
  }
  start.signal_on_parent_death = SIGKILL;
  start.stdin_fd = input.get();
  start.stdout_fd = options.most_output > 0 ? output.writer() : nowhere.get();
  start.stderr_fd = errors.writer();
  RunningCommand command{
      Process(), std::move(output), std::move(errors), options.most_output, "", "", false};
  ASSIGN_OR_RETURN(const pid_t pid, processes.Start([&]() -> Result<pid_t> {
    ASSIGN_OR_RETURN(command.process, io::Start(start));
    return command.process.pid;
  }));
  command.output.CloseWriter();
  command.errors.CloseWriter();
  CommandOutcome outcome;
  outcome.ended = command.AwaitEnd(MonotonicNow() + options.limit, deadline);
  // Also what a command that has ended leaves behind in its group. Until it is reaped its number
  // cannot be another group's.
  (void)SignalGroup(pid, SIGKILL);
  Result<ExitStatus> status = InternalError("it was not reaped");
  processes.End(pid, [&] { status = Reap(command.process.pidfd); });
  if (!options.mark.empty()) EndDescendants(pid, options.mark);
  RETURN_IF_ERROR(status.status());
  command.Read();
  outcome.status = *status;
  outcome.output = std::move(command.kept_output);
  outcome.cut = command.cut;
  outcome.last_error = LastLineOf(command.kept_errors);
  return outcome;
}

std::string FailureText(const CommandOutcome& outcome) {
  const std::string how = outcome.status.signal != 0
                              ? "it was ended by signal " + std::to_string(outcome.status.signal)
                              : "it exited with code " + std::to_string(outcome.status.exit_code);
  return how + (outcome.last_error.empty() ? "" : ": " + outcome.last_error);
}

}  // namespace longhaul::io
