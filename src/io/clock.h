// The machine's clock, for services; pure cores get the time as an argument.
#pragma once

#include "base/time.h"

namespace longhaul::io {

// The time of day (CLOCK_REALTIME): the timestamp of events, comparable between processes of a
// host.
Instant Now();

// A monotonic clock (CLOCK_MONOTONIC), for measuring and for timers. Only differences have a
// meaning.
Instant MonotonicNow();

// The CPU time of this thread (CLOCK_THREAD_CPUTIME_ID). Only differences have a
// meaning.
Instant ThreadCpuTime();
// The CPU time of all threads of this process.
Instant ProcessCpuTime();

}  // namespace longhaul::io
