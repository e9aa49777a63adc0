// The invariants of the state between two calls. Where possible, the checks compute what must hold
// from the jobs alone.
#pragma once

#include "base/status.h"
#include "scheduler/internal/scheduler_state.h"

namespace longhaul::scheduler::internal {

// Returns an error that names the first invariant that does not hold.
Status CheckInvariants(const SchedulerState& state);

}  // namespace longhaul::scheduler::internal
