// The fork server's service loop (worker_api/fork_server.h has the protocol).
#pragma once

#include <functional>

#include "base/status.h"

namespace longhaul::trainer {

// Serves fork requests on a SOCK_SEQPACKET descriptor until its other end is closed. In the forked
// worker, `run` is called once and must not return. Requires that this process has one thread;
// rejects a request (EBUSY in the reply) when it has more.
Status ServeForkServer(int fd, const std::function<void()>& run);

// The number of threads of this process, from /proc/self/task.
int ThreadCount();

}  // namespace longhaul::trainer
