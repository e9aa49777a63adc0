// Room for a job whose right to it depends on other victims.
//
// A queue may claim what other branches of the tree borrowed only while each queue above it stays
// within its guarantee. If a sibling has used up the parent's guarantee, the queue may take the
// sibling's jobs, but these may hold nodes that the waiting job cannot use: cordoned ones, or
// another device model. Stopping some of them gives the parent its guarantee back, and with that
// the right to jobs of other branches.
//
// So victims are chosen in two stages: the cheapest jobs below the full parents that bring these
// within their guarantees, then FindRoom as if they had gone. The set may not be the cheapest.
#pragma once

#include "scheduler/internal/room/make_room.h"

namespace longhaul::scheduler::internal {

// Whether the job's queue is within its guarantee with the job, and a queue above it is not.
bool IsHeldUpByParents(const SchedulerState& state, const JobEntry& job);

// Returns the victims of both stages. Requires IsHeldUpByParents. The state is as before
// afterwards.
Room FindRoomInStages(SchedulerState& state, const JobEntry& job, Placer& placer);

}  // namespace longhaul::scheduler::internal
