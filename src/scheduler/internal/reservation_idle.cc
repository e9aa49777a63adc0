#include "scheduler/internal/reservation_idle.h"

#include <algorithm>
#include <bit>

namespace longhaul::scheduler::internal {

namespace {

int64_t MillisecondsOf(Duration duration) { return duration / std::chrono::milliseconds(1); }

int64_t GpusOf(const JobEntry& job) {
  int64_t gpus = 0;
  for (const GroupRequest& group : job.request->groups) {
    gpus += int64_t{group.shape.gpus} * group.minimum;
  }
  return gpus;
}

// The accelerator time in milliseconds that the reservations of a gang may keep idle.
int64_t LimitOf(const SchedulerState& state, const JobEntry& holder) {
  const Duration run = std::max(state.ExpectedRun(holder).median, state.policy.least_idle_run);
  return GpusOf(holder) * MillisecondsOf(run) / 1'000 * state.policy.reservation_idle_milli;
}

// The accelerators that a reservation keeps idle now.
// Only GPUs that another job could use count as kept idle: while the job that the reservation has
// forbidden waits, and no more than the holder needs.
int64_t IdleGpus(const SchedulerState& state, const JobEntry& holder,
                 const Reservation& reservation) {
  const JobEntry* forbidden = state.jobs.Find(reservation.forbidden);
  if (forbidden == nullptr || forbidden->placed) return 0;
  int64_t free = 0;
  if (reservation.tier == kClusterTier) {
    free = state.resources.cluster().free_gpus;
  } else {
    for (size_t i = 0; i < reservation.gpus_at_start.size(); ++i) {
      const NodeState& node = state.resources.node(static_cast<NodeIndex>(reservation.first_host) +
                                                   static_cast<NodeIndex>(i));
      if (node.ready()) free += std::popcount(node.free_gpus);
    }
  }
  return std::min(free, GpusOf(holder));
}

bool HasLimit(const SchedulerState& state, const JobEntry& holder) {
  return state.policy.reservation_idle_milli > 0 && !state.IsOverdue(holder) &&
         holder.expedited == 0;
}

}  // namespace

void CountReservationIdle(SchedulerState& state) {
  const int64_t passed = MillisecondsOf(state.now - state.idle_counted);
  if (passed <= 0) return;
  // Advances by whole milliseconds; what is less stays for the next count.
  state.idle_counted += std::chrono::milliseconds(passed);
  for (const auto& [number, reservation] : state.reservations) {
    JobEntry& holder = state.at(number);
    const bool before = HasKeptTooMuchIdle(state, holder);
    holder.kept_idle_ms += IdleGpus(state, holder, reservation) * passed;
    if (!before && HasKeptTooMuchIdle(state, holder)) ++state.reservation_version;
  }
}

void NoteForbidden(SchedulerState& state, JobNumber holder, JobNumber job) {
  state.reservations.at(holder).forbidden = job;
}

bool HasKeptTooMuchIdle(const SchedulerState& state, const JobEntry& holder) {
  return HasLimit(state, holder) && holder.kept_idle_ms > 0 &&
         holder.kept_idle_ms >= LimitOf(state, holder);
}

std::optional<Instant> NextIdleLimit(const SchedulerState& state) {
  std::optional<Instant> next;
  for (const auto& [number, reservation] : state.reservations) {
    const JobEntry& holder = state.at(number);
    if (!HasLimit(state, holder) || HasKeptTooMuchIdle(state, holder)) continue;
    const int64_t gpus = IdleGpus(state, holder, reservation);
    if (gpus == 0) continue;
    const int64_t left = std::max<int64_t>(0, LimitOf(state, holder) - holder.kept_idle_ms);
    const Instant at =
        std::max(state.idle_counted + std::chrono::milliseconds((left + gpus - 1) / gpus),
                 state.now + Duration(1));
    next = next ? std::min(*next, at) : at;
  }
  return next;
}

}  // namespace longhaul::scheduler::internal
