// Whether a request could ever start: with nothing else running, on the whole cluster and within
// the quotas. Explains why not, with the largest size that could.
#pragma once

#include "scheduler/internal/scheduler_state.h"

namespace longhaul::scheduler::internal {

// Returns kFailedPrecondition with the reason. The state learns of the request's shapes.
Status CheckFits(SchedulerState& state, const JobRequest& request);
// The same answer; the state stays as it is. A job of one group needs no copy of it.
Status WouldFit(const SchedulerState& state, const JobRequest& request);

}  // namespace longhaul::scheduler::internal
