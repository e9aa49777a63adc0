// Carries out what FindRoom (internal/room/make_room.h) has proved: the stops and moves of other
// jobs, and the start of the job that receives their room.
#pragma once

#include "scheduler/internal/room/make_room.h"
#include "scheduler/internal/round/round_context.h"

namespace longhaul::scheduler::internal {

// Starts `job` with its minimum in the room. All decisions of stops belong to the transaction of
// the start. Requires that `room` was found for this job in this very state.
void TakeRoom(RoundContext& context, JobEntry& job, const Room& room);

}  // namespace longhaul::scheduler::internal
