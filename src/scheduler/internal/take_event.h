// How events change the state.
#pragma once

#include "scheduler/event.h"
#include "scheduler/internal/scheduler_state.h"

namespace longhaul::scheduler::internal {

// Takes one event at state.now. What makes no sense changes nothing.
void TakeEvent(SchedulerState& state, const Event& event);

// Whether the request could start with nothing else running; the reason and the largest size that
// could, if not. The state learns of its shapes.
Status CheckFits(SchedulerState& state, const JobRequest& request);
// The same answer; the state stays as it is. A job of one group needs no copy of it.
Status WouldFit(const SchedulerState& state, const JobRequest& request);

// Health that returns with time, and suspects that have earned their readiness.
void HealNodes(SchedulerState& state);

}  // namespace longhaul::scheduler::internal
