// Room for a waiting job that has a right to it: which running jobs to shrink, suspend, stop or
// move, proven to suffice.
//
// The cost of a candidate (victim_candidates.h) is what stopping it loses. The search
// (victims/victim_search.h) finds the cheapest set, and each set is proven by placing the waiting
// job in a transaction that is undone.
//
// Moving comes before stopping: a job that may be stopped at all may be moved, whichever queue it
// is in, if it finds another place under its own rules once the waiting job has landed. A set of
// moves alone is taken if it loses less than the stops; else those of the stops that find a place
// become moves. Where neither alone suffices, the cheapest moves beside all stops are taken and
// stops that are not needed are dropped; that set may not be the cheapest.
#pragma once

#include "scheduler/internal/placer.h"
#include "scheduler/internal/quota_check.h"
#include "scheduler/internal/room/room.h"
#include "scheduler/internal/room/victim_candidates.h"

namespace longhaul::scheduler::internal {

// Returns the victims for the job's minimum. The state is as before afterwards.
Room FindRoom(SchedulerState& state, const JobEntry& job, Rights rights, Placer& placer);
// The same on the models of one choice (ModelChoicesOf).
Room FindRoomOn(SchedulerState& state, const JobEntry& job, const ModelChoice& choice,
                Rights rights, Placer& placer);

}  // namespace longhaul::scheduler::internal
