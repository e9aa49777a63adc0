// A child that is a copy of the present state of this process, to run one function: the kernel does
// the copy-on-write.
//
// Made by _Fork, which runs no handlers of other libraries: only the calling thread exists in the
// child, and a lock that another thread held stays locked there. So the function must not call code
// that takes locks or allocates. The child dies with the thread that made it.
#pragma once

#include <sys/types.h>

#include "base/status.h"

namespace longhaul::io {

class ForkedChild {
 public:
  // Runs `work(argument)` in a child, which then ends with the result as its exit code.
  static Result<ForkedChild> Start(int (*work)(void*), void* argument);

  ForkedChild() = default;
  ForkedChild(ForkedChild&& other) noexcept;
  ForkedChild& operator=(ForkedChild&& other) noexcept;
  ~ForkedChild();  // kills and reaps a child that still runs

  bool running() const { return pid_ > 0; }
  pid_t pid() const { return pid_; }

  // Blocks until it ends; its exit code, kAborted when a signal ended it. Requires running().
  Result<int> Wait();

 private:
  pid_t pid_ = 0;
};

// Whether a process has this number (not which one: numbers are reused).
bool ProcessExists(pid_t pid);

}  // namespace longhaul::io
