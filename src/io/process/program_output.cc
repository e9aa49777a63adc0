#include "io/process/program_output.h"

#include <fcntl.h>
#include <poll.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <csignal>

#include "io/clock.h"
#include "io/fd.h"

namespace longhaul::io {
namespace {

constexpr size_t kLongestAnswer = 4096;

}  // namespace

Result<std::string> OutputOf(ProcessOptions options, Duration limit) {
  std::array<int, 2> pipe{};
  if (::pipe2(pipe.data(), O_CLOEXEC) != 0) return FromErrno(errno, "cannot make a pipe");
  const Fd reader(pipe[0]);
  Fd writer(pipe[1]);
  options.stdout_fd = writer.get();
  ASSIGN_OR_RETURN(const Process process, Start(options));
  writer.Reset();
  const Instant deadline = MonotonicNow() + limit;
  std::string output;
  std::array<char, 1024> buffer;
  while (output.size() < kLongestAnswer) {
    pollfd ready{reader.get(), POLLIN, 0};
    const auto left =
        std::chrono::duration_cast<std::chrono::milliseconds>(deadline - MonotonicNow());
    if (left.count() <= 0) break;
    const int polled = ::poll(&ready, 1, static_cast<int>(left.count()));
    if (polled < 0 && errno == EINTR) continue;
    if (polled <= 0) break;
    const ssize_t got = ::read(reader.get(), buffer.data(), buffer.size());
    if (got <= 0) break;
    output.append(buffer.data(), static_cast<size_t>(got));
  }
  // The program has ended, closed its output, or passed a limit.
  (void)!Signal(process.pidfd, SIGKILL).ok();
  ASSIGN_OR_RETURN(const ExitStatus status, Reap(process.pidfd));
  (void)status;
  return output;
}

}  // namespace longhaul::io
