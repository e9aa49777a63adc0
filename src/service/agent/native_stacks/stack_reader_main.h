// `longhaul stack-reader`: writes the native stacks of processes to its standard output.
//
// An agent starts it (native_stack_process.h), with the processes as arguments. It runs as the
// workers' user. While it copies the stacks it has CAP_SYS_PTRACE, if the agent has it, and nothing
// else; before it opens a file of a worker it drops that, too. It cannot be traced by the workers.
//
// The text has lines. First come the main threads of all processes, then the others:
//   process 4711
//   thread 4711 (stopped for 45 us)
//     pthread_cond_wait
//     main
//   process 4711
//   thread 4712 (stopped for 40 us)
//     ...
//   ! thread 4713: it has ended
#pragma once

#include <sys/types.h>

#include <optional>
#include <vector>

namespace longhaul::service {

struct StackReaderOptions {
  std::vector<pid_t> processes;
  std::optional<uid_t> user;  // to become first; requires root
  gid_t group = 0;            // with `user`
};

// Returns the exit code. Blocks for seconds: the caller of the process ends it at its limit.
int StackReaderMain(const StackReaderOptions& options);

}  // namespace longhaul::service
