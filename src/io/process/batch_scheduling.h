// How the kernel shares the cores among processes that compute.
#pragma once

#include "base/status.h"

namespace longhaul::io {

// After this call the calling thread, and the threads that it starts, wait for their turn when they
// wake up, and do not preempt the thread that computes on the core (SCHED_BATCH; sched(7)). For
// ranks that share cores: a transport's thread that preempts its own process in the middle of a
// send finds the connection locked and, because its descriptor stays readable, polls for a whole
// turn. There is no change where cores are idle. Needs no privilege; fails where a sandbox forbids
// the call.
Status UseBatchScheduling();

}  // namespace longhaul::io
