// Reservations: where and when blocked gangs will start, and which later jobs may start before.
//
// A reservation holds a domain and a count of tasks from a time on, not named hosts. The time is
// found by walking the expected ends of what runs, each end adding its slots back to its domains,
// in a transaction that is undone. A later job may start now if it is expected to end before the
// reservation begins, or takes only capacity that the domain doesn't need then. One reservation a
// queue is EASY backfill (Lifka, JSSPP 1995), one a job conservative; the policy says how many.
//
// Only gangs of whole GPUs get reservations: what takes a fraction or no GPU finds room at every
// end of a task.
#pragma once

#include <optional>
#include <span>

#include "scheduler/internal/placer.h"

namespace longhaul::scheduler::internal {

// The earliest reservation for a waiting job, given those that exist. Nothing when the job isn't a
// gang of whole GPUs or would not start even once all that runs has ended.
// `late`: with lengths that nine of ten jobs stay below, instead of medians.
std::optional<Reservation> PlanReservation(SchedulerState& state, const JobEntry& job,
                                           Placer& placer, bool late = false);

// The reservation that forbids `job` to start now on `tasks` (placed in the state, uncommitted), or
// kNoJob. One that the job goes before doesn't, and `ignored`'s, who starts now.
JobNumber ForbiddenBy(const SchedulerState& state, const JobEntry& job,
                      std::span<const HeldTask> tasks, JobNumber ignored = kNoJob);

// The reservation that forbids running jobs to move to `tasks` (placed in the state, uncommitted),
// which they would hold until `end`; or kNoJob. Unlike a start, a move never goes before a
// reservation; `ignored`'s does not count, who starts by the moves.
JobNumber MoveForbiddenBy(const SchedulerState& state, Instant end, std::span<const HeldTask> tasks,
                          JobNumber ignored);

// When a job that starts now is expected to end: the median. A later time would forbid nearly every
// start beside a reservation when durations are learnt; the reservations of a gang that such jobs
// outlive are planned anew, and simulated waits are shorter for small jobs and large gangs alike.
// When a running one that is moved now has ended: nine of ten like it have.
Instant EndOfStart(const SchedulerState& state, const JobEntry& job);
Instant EndOfMoved(const SchedulerState& state, const JobEntry& job);

// Takes what the job's `tasks`, held until `end`, still hold at their starts out of the
// reservations.
void ChargeReservations(SchedulerState& state, JobNumber job, Instant end,
                        std::span<const HeldTask> tasks);

// Whether `job` goes before the holder of a reservation: in their queue's order; across queues as
// the one that is overdue, as the older of two that are, or as one within its guarantee against one
// that borrows.
bool GoesBefore(const SchedulerState& state, const JobEntry& job, const JobEntry& holder);

}  // namespace longhaul::scheduler::internal
