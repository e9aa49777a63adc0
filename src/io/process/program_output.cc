#include "io/process/program_output.h"

#include <fcntl.h>
#include <poll.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <csignal>
#include <utility>

#include "io/clock.h"
#include "io/fd.h"

namespace longhaul::io {
namespace {

constexpr size_t kLongestAnswer = 4096;

// Returns false when the deadline passes before.
bool AwaitReadable(const Fd& fd, Instant deadline) {
  for (;;) {
    pollfd ready{fd.get(), POLLIN, 0};
    const auto left =
        std::chrono::duration_cast<std::chrono::milliseconds>(deadline - MonotonicNow());
    if (left.count() <= 0) return false;
    const int polled = ::poll(&ready, 1, static_cast<int>(left.count()));
    if (polled < 0 && errno == EINTR) continue;
    return polled > 0;
  }
}

}  // namespace

Result<ProgramEnd> RunProgram(ProcessOptions options, Duration limit, size_t most_bytes) {
  std::array<int, 2> pipe{};
  if (::pipe2(pipe.data(), O_CLOEXEC) != 0) return FromErrno(errno, "cannot make a pipe");
  const Fd reader(pipe[0]);
  Fd writer(pipe[1]);
  options.stdout_fd = writer.get();
  ASSIGN_OR_RETURN(const Process process, Start(options));
  writer.Reset();
  const Instant deadline = MonotonicNow() + limit;
  ProgramEnd end;
  std::array<char, 1024> buffer;
  while (end.output.size() < most_bytes && AwaitReadable(reader, deadline)) {
    const ssize_t got = ::read(reader.get(), buffer.data(), buffer.size());
    if (got <= 0) break;
    end.output.append(buffer.data(), static_cast<size_t>(got));
  }
  // A program that has printed too much may block on its output for ever.
  if (end.output.size() >= most_bytes || !AwaitReadable(process.pidfd, deadline)) {
    (void)!Signal(process.pidfd, SIGKILL).ok();
  }
  ASSIGN_OR_RETURN(end.status, Reap(process.pidfd));
  return end;
}

Result<std::string> OutputOf(ProcessOptions options, Duration limit) {
  ASSIGN_OR_RETURN(ProgramEnd end, RunProgram(std::move(options), limit, kLongestAnswer));
  return std::move(end.output);
}

}  // namespace longhaul::io
