#include "io/process/forked_child.h"

#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <string>
#include <utility>

#include "base/check.h"

namespace longhaul::io {

Result<ForkedChild> ForkedChild::Start(int (*work)(void*), void* argument) {
  const pid_t parent = getpid();
  const pid_t pid = _Fork();
  if (pid < 0) return FromErrno(errno, "cannot fork");
  if (pid == 0) {
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    // A parent that died before that call sends nothing any more.
    _exit(getppid() == parent ? work(argument) : 1);
  }
  ForkedChild child;
  child.pid_ = pid;
  return child;
}

ForkedChild::ForkedChild(ForkedChild&& other) noexcept : pid_(std::exchange(other.pid_, 0)) {}

ForkedChild& ForkedChild::operator=(ForkedChild&& other) noexcept {
  std::swap(pid_, other.pid_);
  return *this;
}

ForkedChild::~ForkedChild() {
  if (!running()) return;
  kill(pid_, SIGKILL);
  (void)Wait().ok();
}

Result<int> ForkedChild::Wait() {
  CHECK(running());
  int status = 0;
  pid_t reaped = 0;
  do {
    reaped = waitpid(pid_, &status, 0);
  } while (reaped < 0 && errno == EINTR);
  const int error = errno;
  const pid_t pid = std::exchange(pid_, 0);
  // A program that ignores SIGCHLD has its children reaped by the kernel, after their end.
  if (reaped < 0) return FromErrno(error, "cannot wait for child " + std::to_string(pid));
  if (WIFEXITED(status)) return WEXITSTATUS(status);
  return Aborted("signal " + std::to_string(WTERMSIG(status)) + " ended child " +
                 std::to_string(pid));
}

bool ProcessExists(pid_t pid) { return pid > 0 && (kill(pid, 0) == 0 || errno == EPERM); }

}  // namespace longhaul::io
