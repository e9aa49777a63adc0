#include "scheduler/internal/round/defragmentation.h"

#include <algorithm>
#include <vector>

#include "scheduler/internal/planning.h"
#include "scheduler/internal/quota_check.h"
#include "scheduler/internal/round/take_room.h"

namespace longhaul::scheduler::internal {

namespace {

// A gang that waits less than this is not worth a search.
constexpr Duration kShortWait = std::chrono::minutes(1);
// Gangs for which one period searches: the first ones that hold a reservation.
constexpr int kMostGangs = 8;

__extension__ using Int128 = __int128;

bool WaitsForLong(const SchedulerState& state, const Reservation& reservation) {
  return reservation.start - state.now >= kShortWait && !state.at(reservation.job).leaving;
}

}  // namespace

// No run is due while no gang waits for long, so an idle cluster needs no timer.
std::optional<Instant> Defragmentation::NextRun(const SchedulerState& state) {
  const Policy& policy = state.policy;
  if (!policy.moves || policy.defragment_period <= Duration(0)) return std::nullopt;
  if (policy.placement != PlacementRule::kExact) return std::nullopt;
  for (const auto& [holder, reservation] : state.reservations) {
    if (WaitsForLong(state, reservation)) return state.defragmented_at + policy.defragment_period;
  }
  return std::nullopt;
}

void Defragmentation::Run() {
  SchedulerState& state = context_.state;
  const std::optional<Instant> due = NextRun(state);
  if (!due || *due > state.now) return;
  std::vector<JobNumber> waiting;
  for (const auto& [holder, reservation] : state.reservations) {
    if (WaitsForLong(state, reservation)) waiting.push_back(holder);
  }
  std::sort(waiting.begin(), waiting.end(),
            [&](JobNumber a, JobNumber b) { return state.Before(state.at(a), state.at(b)); });
  state.defragmented_at = state.now;
  if (waiting.size() > kMostGangs) waiting.resize(kMostGangs);
  for (const JobNumber number : waiting) {
    if (context_.steps_left <= 0) return;
    const auto held = state.reservations.find(number);
    if (held == state.reservations.end()) continue;
    // One success a period: the moves change the state on which the other reservations were
    // planned.
    if (TryMoves(state.at(number), held->second)) return;
  }
}

// Whether the gang starts by moves that are worth it.
bool Defragmentation::TryMoves(JobEntry& job, const Reservation& reservation) {
  --context_.steps_left;
  if (!IsPossible(job)) return false;
  const Room room = FindRoom(context_.state, job, Rights::kMove, context_.placer);
  context_.steps_left -= room.steps / 100;
  if (!room.found || !IsWorthIt(job, reservation, room) || !DelaysNobody(job, room)) return false;
  TakeRoom(context_, job, room);
  return true;
}

// Whether quota and the free GPUs in all suffice: moves only join free slots.
bool Defragmentation::IsPossible(const JobEntry& job) const {
  SchedulerState& state = context_.state;
  const spec::SharedAmounts needed = state.MinimumAmounts(job);
  if (CheckQuotasOfMinimum(state, job)) return false;
  const auto group = static_cast<size_t>(LargestGroup(*job.request));
  const SlotTable& table = state.tables.Of(state.resources, job.shapes[group], AdmitOf(state, job));
  if (table.total() >= job.request->groups[group].minimum) return true;
  return state.resources.cluster().free_gpus >= needed[0] / kWholeGpu;
}

// Whether the saved wait outweighs the loss, and the budget for moves covers the loss.
bool Defragmentation::IsWorthIt(const JobEntry& job, const Reservation& reservation,
                                const Room& room) const {
  const SchedulerState& state = context_.state;
  const int64_t saved_ms = (reservation.start - state.now) / std::chrono::milliseconds(1);
  const int64_t gang_milli = std::max<int64_t>(kWholeGpu, state.MinimumAmounts(job)[0]);
  // In GPU-milliseconds, like the cost.
  const auto gain = static_cast<Int128>(gang_milli) * saved_ms / 1'000;
  if (gain <= static_cast<Int128>(2) * room.cost_gpu_ms) return false;
  // The budget is in thousandths of all GPU-time so far.
  const int64_t up_ms = (state.now - state.began) / std::chrono::milliseconds(1);
  const int64_t capacity = state.queues.capacity()[0];
  const auto budget =
      static_cast<Int128>(up_ms) * (capacity / kWholeGpu) * state.policy.move_budget_milli / 1'000;
  return budget >= static_cast<Int128>(state.moved_gpu_ms) + room.cost_gpu_ms;
}

// Whether the start takes nothing that is reserved for a job that goes before.
bool Defragmentation::DelaysNobody(const JobEntry& job, const Room& room) {
  SchedulerState& state = context_.state;
  const Savepoint before = state.resources.Save();
  for (const ChosenVictim& victim : room.victims) {
    for (const HeldTask& task : state.at(victim.job).tasks) state.resources.Remove(task.slot);
  }
  std::vector<int32_t> counts;
  for (const GroupRequest& group : job.request->groups) counts.push_back(group.minimum);
  std::vector<HeldTask> tasks;
  const bool lands =
      context_.placer.Place(state, job, counts, room.bounds, AdmitOf(state, job), tasks) &&
      ForbiddenBy(state, job, tasks) == kNoJob;
  state.resources.RollBack(before);
  return lands;
}

}  // namespace longhaul::scheduler::internal
