// The decision that shrinks, suspends or evicts a running job for another one.
#pragma once

#include <cstdint>

#include "scheduler/internal/room/make_room.h"
#include "scheduler/internal/round/round_context.h"

namespace longhaul::scheduler::internal {

// Carries out one stop for `winner`: removes the tasks from the state and adds a kShrink, kSuspend
// or kEvict to the transaction. Requires that victim.means is not Means::kMove.
void StopVictim(RoundContext& context, const ChosenVictim& victim, const JobEntry& winner,
                uint64_t transaction);

}  // namespace longhaul::scheduler::internal
