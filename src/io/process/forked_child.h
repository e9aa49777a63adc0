// A child that is a copy of this process as it is now, for one function: copy-on-write in the hands
// of the kernel.
//
// Made by _Fork, which runs no handlers of other libraries: only the calling thread exists in the
// child, and whatever lock another one held stays held there. So the function may call nothing that
// takes locks or allocates. The child dies with the thread that made it.
#pragma once

#include <sys/types.h>

#include "base/status.h"

namespace longhaul::io {

class ForkedChild {
 public:
  // Runs `work(argument)` in a child and ends it there with the result as exit code.
  static Result<ForkedChild> Start(int (*work)(void*), void* argument);

  ForkedChild() = default;
  ForkedChild(ForkedChild&& other) noexcept;
  ForkedChild& operator=(ForkedChild&& other) noexcept;
  ~ForkedChild();  // kills and reaps one that still runs

  bool running() const { return pid_ > 0; }
  pid_t pid() const { return pid_; }

  // Waits for its end; the exit code, kAborted when a signal ended it. Requires running().
  Result<int> Wait();

 private:
  pid_t pid_ = 0;
};

// Whether there is a process of that number (not of which one: numbers are used again).
bool ProcessExists(pid_t pid);

}  // namespace longhaul::io
