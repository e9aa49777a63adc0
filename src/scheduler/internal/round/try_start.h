// The start of one waiting job: on free slots that its quota, its rules and the reservations of
// other jobs allow.
//
// An elastic job starts with as many tasks as room and quota allow, at least with its minimum.
#pragma once

#include <vector>

#include "scheduler/internal/round/round_context.h"

namespace longhaul::scheduler::internal {

// Starts `job` if it fits now, and uses one step. Returns whether it started; if it did not,
// `job.block` holds the reason. Requires that the job waits.
bool TryStart(RoundContext& context, JobEntry& job);

// Adds a kStart of `job` on `tasks`, and commits them. Requires that the job waits, and that
// `tasks` are all its tasks, placed in the state and uncommitted.
void StartOn(RoundContext& context, JobEntry& job, std::vector<HeldTask> tasks);

}  // namespace longhaul::scheduler::internal
