// How the kernel shares the cores among processes that compute.
#pragma once

#include "base/status.h"

namespace longhaul::io {

// From now on a thread of the caller, and those it starts, waits for its turn when it wakes,
// instead of taking the core from whoever computes there (SCHED_BATCH; sched(7)). For ranks that
// share cores: a transport's thread that takes the core from its own process in the middle of a
// send finds the connection locked and, as its descriptor stays readable, polls for a whole turn.
// Where cores are idle nothing changes. Everybody may ask for it; fails where a sandbox forbids the
// call.
Status UseBatchScheduling();

}  // namespace longhaul::io
