#include "scheduler/internal/round/try_start.h"

#include <array>
#include <utility>

#include "scheduler/internal/planning.h"
#include "scheduler/internal/quota_check.h"
#include "scheduler/internal/rank_places.h"
#include "scheduler/internal/reservation_idle.h"

namespace longhaul::scheduler::internal {

namespace {

// Domains of reservations that one attempt avoids before it gives up.
constexpr int kMostDetours = 3;

// The count of an elastic job's only group that room and quota allow; 0 if below its minimum.
int32_t CountFor(RoundContext& context, JobEntry& job, Admit admit) {
  const GroupRequest& group = job.request->groups[0];
  const int32_t room = context.placer.MostTasks(context.state, job, 0, {}, admit);
  if (room < group.minimum) return 0;
  int32_t count = group.minimum + (room - group.minimum) / group.step * group.step;
  while (count > group.minimum && CheckQuotas(context.state, job, std::array{count}).has_value()) {
    count -= group.step;
  }
  return count;
}

// Starts the job with counts[g] tasks of each group g, outside of the domains of reservations that
// it would delay. Returns false, with the reason in job.block, if it does not fit.
bool StartWith(RoundContext& context, JobEntry& job, const std::vector<int32_t>& counts,
               Admit admit) {
  SchedulerState& state = context.state;
  Bounds bounds;
  for (int detour = 0;; ++detour) {
    const Savepoint before = state.resources.Save();
    std::vector<HeldTask> tasks;
    int32_t failed = 0;
    if (!context.placer.Place(state, job, counts, bounds, admit, tasks, &failed)) {
      // After a detour there is room, and a reservation is what blocks the job.
      if (detour == 0) {
        job.block.kind = Block::Kind::kRoom;
        job.block.group = failed;
      }
      return false;
    }
    const JobNumber holder = ForbiddenBy(state, job, tasks);
    if (holder == kNoJob) {
      StartOn(context, job, std::move(tasks));
      return true;
    }
    state.resources.RollBack(before);
    job.block.kind = Block::Kind::kReservation;
    job.block.by = holder;
    NoteForbidden(state, holder, job.number);
    const Reservation& reservation = state.reservations.at(holder);
    // A reservation of the whole cluster leaves nowhere to go. Otherwise the domain is closed and
    // the placement tried again.
    if (reservation.tier == kClusterTier || detour == kMostDetours) return false;
    bounds.closed_hosts.emplace_back(
        reservation.first_host,
        reservation.first_host + static_cast<int32_t>(reservation.gpus_at_start.size()));
  }
}

// Whether the quota of the job's queue does not allow its minimum; job.block then holds the reason.
bool IsBlockedByQuota(const SchedulerState& state, JobEntry& job) {
  const auto quota = CheckQuotasOfMinimum(state, job);
  if (!quota) return false;
  // A job that needs more than the whole cluster has left lacks room, whichever queues use it.
  const size_t r = quota->resource;
  const bool full = quota->kind == share::QuotaBlock::Kind::kLending &&
                    state.queues.usage(share::kRootQueue)[r] + quota->asked > quota->bound;
  job.block.kind = full ? Block::Kind::kRoom : Block::Kind::kQuota;
  job.block.quota = *quota;
  job.block.group = LargestGroup(*job.request);
  return true;
}

}  // namespace

bool TryStart(RoundContext& context, JobEntry& job) {
  SchedulerState& state = context.state;
  --context.steps_left;
  job.block = {};
  if (job.leaving) {
    job.block.kind = Block::Kind::kLeaving;
    return false;
  }
  if (IsBlockedByQuota(state, job)) return false;
  const Admit admit = AdmitOf(state, job);
  std::vector<int32_t> minimum;
  std::vector<int32_t> desired;
  for (const GroupRequest& group : job.request->groups) {
    minimum.push_back(group.minimum);
    desired.push_back(group.desired);
  }
  // The desired size first, then the minimum. Sizes in between are tried only for a single group,
  // where one count decides.
  if (minimum == desired) return StartWith(context, job, minimum, admit);
  if (desired.size() == 1) {
    const int32_t count = CountFor(context, job, admit);
    if (count > minimum[0] && StartWith(context, job, {count}, admit)) return true;
  } else {
    if (!CheckQuotas(state, job, desired) && StartWith(context, job, desired, admit)) return true;
  }
  return StartWith(context, job, minimum, admit);
}

void StartOn(RoundContext& context, JobEntry& job, std::vector<HeldTask> tasks) {
  SchedulerState& state = context.state;
  LayRanks(state, job, tasks, true);
  // Before Begin, which commits the placement.
  ChargeReservations(state, job.number, EndOfStart(state, job), tasks);
  const std::vector<JobId> after = context.JobsLeaving(tasks, job);
  // Jobs that have to leave first need time for it.
  const int patience = after.empty() ? 1 : 4;
  state.Begin(job, tasks, state.now + state.policy.bind_deadline * patience);
  context.begun.push_back(job.number);
  Decision& start = context.AddDecision(DecisionKind::kStart, job.transaction, job);
  start.after = after;
  start.tasks = state.PlacementsOf(job);
  start.ranks = GpusOfRanks(state, job);
}

}  // namespace longhaul::scheduler::internal
