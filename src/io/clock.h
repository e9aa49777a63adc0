// The machine's clock, for services; cores get the time as an argument.
#pragma once

#include "base/time.h"

namespace longhaul::io {

// The time of day (CLOCK_REALTIME): what events are stamped with, comparable between processes of a
// host.
Instant Now();

// A clock that never jumps (CLOCK_MONOTONIC), for measuring and for timers. Only differences mean
// something.
Instant MonotonicNow();

// The time that this thread has computed (CLOCK_THREAD_CPUTIME_ID). Only differences mean
// something.
Instant ThreadCpuTime();
// Likewise of all threads of this process.
Instant ProcessCpuTime();

}  // namespace longhaul::io
