// Copies what is needed to unwind the stacks of a process: of each thread its registers and a part
// of its stack.
//
// Each thread is stopped by PTRACE_SEIZE and PTRACE_INTERRUPT for as long as the copy takes, some
// tens of microseconds, and is then detached; the work with the files of the program comes later
// (unwinder.h). No signal is sent. A thread that a signal has stopped stays stopped. When the
// tracing thread ends, or its process is killed, the kernel detaches what is left and the threads
// continue. A system call that is not restarted after a stop (signal(7)), such as epoll_wait,
// returns EINTR, as it does beside a debugger. For x86-64 only.
#pragma once

#include <sys/types.h>
#include <sys/user.h>

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "base/time.h"
#include "io/fd.h"

namespace longhaul::service {

struct CopiedThread {
  pid_t thread = 0;
  std::string problem;  // why the rest is missing; empty: it is not
  user_regs_struct registers{};
  uint64_t stack_start = 0;  // the address of the first byte of `stack`
  std::string stack;
  Duration stopped{};  // how long the copy has taken
};

struct CopiedProcess {
  pid_t process = 0;
  std::string problem;                // why there are no threads; empty: there are
  std::string maps;                   // /proc/PID/maps
  io::Fd root;                        // the directory below which the files of `maps` are
  std::vector<CopiedThread> threads;  // the main thread first
};

constexpr size_t kMostCopiedThreads = 64;  // of a process

// Blocks for at most some milliseconds for each thread, and 50 ms for one that does not stop. Ends
// with nothing traced, if the calling thread ends afterwards: a thread that did not stop in time is
// detached then.
CopiedProcess CopyProcess(pid_t process);

}  // namespace longhaul::service
