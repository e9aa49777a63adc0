#include "service/agent/native_stacks/native_stack_process.h"

#include <fcntl.h>
#include <signal.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <string_view>
#include <utility>

#include "base/status.h"

namespace longhaul::service {
namespace {

constexpr size_t kMostText = 1 << 20;

// The environment is empty: libraries of the reader are not to be configured by it.
Result<io::Process> StartReader(const NativeStackOptions& options,
                                const std::vector<pid_t>& processes, int output) {
  io::ProcessOptions start;
  start.argv = options.command;
  start.program = std::exchange(start.argv.front(), std::string("longhaul"));
  if (options.user.has_value()) {
    start.argv.push_back("--user=" + std::to_string(options.user->user));
    start.argv.push_back("--group=" + std::to_string(options.user->group));
  }
  for (const pid_t process : processes) start.argv.push_back(std::to_string(process));
  start.working_directory = "/";
  start.stdout_fd = output;
  start.signal_on_parent_death = SIGKILL;
  return io::Start(start);
}

}  // namespace

NativeStackProcess::NativeStackProcess(io::EventLoop& loop, NativeStackOptions options)
    : loop_(loop), options_(std::move(options)) {}

NativeStackProcess::~NativeStackProcess() {
  for (const auto& [pidfd, reading] : readings_) {
    Forget(reading);
    (void)io::Signal(reading.process.pidfd, SIGKILL);
  }
  for (const auto& [pidfd, process] : killed_) loop_.Unwatch(pidfd);
}

void NativeStackProcess::Read(const std::vector<pid_t>& processes, Done done) {
  if (processes.empty() || options_.command.empty()) return done({});
  std::array<int, 2> ends{};
  if (pipe2(ends.data(), O_CLOEXEC) != 0) {
    return done({{}, "native stacks: cannot make a pipe"});
  }
  io::Fd output(ends[0]);
  const io::Fd writer(ends[1]);
  fcntl(output.get(), F_SETFL, O_NONBLOCK);
  Result<io::Process> process = StartReader(options_, processes, writer.get());
  if (!process.ok()) return done({{}, "native stacks: " + process.status().message()});
  const int pidfd = process->pidfd.get();
  loop_.Watch(pidfd, false, [this, pidfd](bool, bool) { OnEnd(pidfd); });
  loop_.Watch(output.get(), false, [this, pidfd](bool, bool) { OnOutput(pidfd); });
  Reading& reading = readings_[pidfd];
  reading.process = *std::move(process);
  reading.output = std::move(output);
  reading.done = std::move(done);
  reading.timer = loop_.After(options_.limit, [this, pidfd] {
    GiveUp(pidfd, "native stacks: incomplete, because reading them took too long");
  });
}

// Returns whether there may be more to read now.
bool NativeStackProcess::TakeOutput(Reading& reading) {
  std::array<char, 16 * 1024> buffer;
  const ssize_t got = read(reading.output.get(), buffer.data(), buffer.size());
  if (got > 0) {
    reading.text.append(buffer.data(), static_cast<size_t>(got));
    return true;
  }
  if (got < 0 && (errno == EINTR || errno == EAGAIN)) return false;
  loop_.Unwatch(reading.output.get());
  reading.output.Reset();
  return false;
}

void NativeStackProcess::OnOutput(int pidfd) {
  Reading& reading = readings_.at(pidfd);
  TakeOutput(reading);
  if (reading.text.size() > kMostText) GiveUp(pidfd, "native stacks: cut after 1 MiB");
}

void NativeStackProcess::OnEnd(int pidfd) {
  auto node = readings_.extract(pidfd);
  Reading& reading = node.mapped();
  while (reading.output.valid() && reading.text.size() <= kMostText && TakeOutput(reading)) {
  }
  Forget(reading);
  std::string problem;
  const Result<io::ExitStatus> end = io::Reap(reading.process.pidfd);
  if (end.ok() && (end->exit_code != 0 || end->signal != 0)) {
    problem = "native stacks: incomplete, because the reader has ended with " +
              (end->signal != 0 ? "signal " + std::to_string(end->signal)
                                : "exit code " + std::to_string(end->exit_code));
  }
  reading.done({ParseNativeStacks(reading.text), problem});
}

// The child is reaped when it has ended, which it does late if it uses a disk that does not answer.
void NativeStackProcess::GiveUp(int pidfd, const std::string& problem) {
  auto node = readings_.extract(pidfd);
  Reading& reading = node.mapped();
  Forget(reading);
  (void)io::Signal(reading.process.pidfd, SIGKILL);
  killed_.emplace(pidfd, std::move(reading.process));
  loop_.Watch(pidfd, false, [this, pidfd](bool, bool) {
    loop_.Unwatch(pidfd);
    (void)io::Reap(killed_.at(pidfd).pidfd);
    killed_.erase(pidfd);
  });
  reading.done({ParseNativeStacks(reading.text), problem});
}

void NativeStackProcess::Forget(const Reading& reading) {
  loop_.Unwatch(reading.process.pidfd.get());
  if (reading.output.valid()) loop_.Unwatch(reading.output.get());
  loop_.Cancel(reading.timer);
}

}  // namespace longhaul::service
