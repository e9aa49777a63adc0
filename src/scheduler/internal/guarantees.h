// The check that no job waits for what the guarantee of its queue gives it.
//
// It repeats the rule of reclaim, on GPUs alone, and tries it out in a round on a copy. It shares
// no code with the choice of victims (internal/room/make_room.h).
#pragma once

#include "base/status.h"
#include "scheduler/internal/scheduler_core.h"

namespace longhaul::scheduler::internal {

// Returns an error for the first job that waits within its queue's guarantee although stopping jobs
// that may be stopped would start it. Scheduler::CheckGuarantees describes which jobs are checked.
Status CheckGuarantees(const SchedulerCore& core, Instant now);

}  // namespace longhaul::scheduler::internal
