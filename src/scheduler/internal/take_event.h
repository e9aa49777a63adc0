// How events change the state.
#pragma once

#include "scheduler/event.h"
#include "scheduler/internal/scheduler_state.h"

namespace longhaul::scheduler::internal {

// Takes one event at state.now. What makes no sense changes nothing.
void TakeEvent(SchedulerState& state, const Event& event);

// Returns why the event would be ignored: kInvalidArgument for a count that the job cannot have,
// kFailedPrecondition for a job that waits, has several groups or is changing its tasks.
Status CheckScale(const SchedulerState& state, const JobScaled& event);

// Health that returns with time, and suspects that have earned their readiness.
void HealNodes(SchedulerState& state);

}  // namespace longhaul::scheduler::internal
