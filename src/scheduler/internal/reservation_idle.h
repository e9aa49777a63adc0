// How much accelerator time reservations keep idle, and when one has cost too much.
//
// A reservation keeps accelerators idle while its gang collects them and a job waits that it has
// forbidden to start. That time is counted for each gang, over all of its reservations. A gang
// whose count has reached its limit, a share of the accelerator time that the gang itself will use,
// no longer forbids other jobs to start. Estimates that are wrong, or that nothing is known of
// durations, then cost a bounded amount. Reservations of overdue jobs (Policy::longest_wait) have
// no limit.
#pragma once

#include <optional>

#include "base/time.h"
#include "scheduler/internal/scheduler_state.h"

namespace longhaul::scheduler::internal {

// Adds what was kept idle since the last call. Call it at the begin of a round.
void CountReservationIdle(SchedulerState& state);

// Notes that the reservation of `holder` has forbidden `job` to start.
void NoteForbidden(SchedulerState& state, JobNumber holder, JobNumber job);

// Whether the reservation of `holder` has kept too much idle to forbid other jobs to start.
bool HasKeptTooMuchIdle(const SchedulerState& state, const JobEntry& holder);

// When the next reservation reaches its limit, if nothing else happens.
std::optional<Instant> NextIdleLimit(const SchedulerState& state);

}  // namespace longhaul::scheduler::internal
