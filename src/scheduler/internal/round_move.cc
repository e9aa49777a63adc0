// Moves: what was proven is carried out, and holes are joined for a gang that waits.
#include <algorithm>

#include "base/check.h"
#include "scheduler/internal/planning.h"
#include "scheduler/internal/rank_places.h"
#include "scheduler/internal/round.h"

namespace longhaul::scheduler::internal {

namespace {

// A gang that waits less long is not worth a search.
constexpr Duration kShortWait = std::chrono::minutes(1);
// Gangs looked at in one period: the first of each queue that have a promise.
constexpr int kMostGangs = 8;

}  // namespace

void Round::SayMoved(JobEntry& job) {
  state_.Confirmable(job, state_.policy.bind_deadline * 2);
  job.started_in_round = state_.rounds;
  begun_.push_back(job.number);
  // The move begins with a snapshot.
  job.last_snapshot = state_.now;
  std::erase_if(job.moves, [&](Instant at) { return at + std::chrono::hours(24) <= state_.now; });
  job.moves.push_back(state_.now);
  Decision& move = Say(DecisionKind::kMove, job.transaction, job);
  move.tasks = state_.PlacementsOf(job);
  move.ranks = GpusOfRanks(state_, job);
  move.after = Leaving(job.tasks, job);
}

void Round::MakeTheRoom(JobEntry& job, const Room& room, uint64_t transaction) {
  const std::vector<ChosenVictim>& victims = room.victims;
  for (const ChosenVictim& victim : victims) {
    if (victim.means == Means::kMove) {
      state_.Uproot(state_.at(victim.job));
    } else {
      Stop(victim.job, victim, job, transaction);
    }
  }
  std::vector<int32_t> counts;
  for (const GroupRequest& group : job.request->groups) counts.push_back(group.minimum);
  std::vector<HeldTask> tasks;
  CHECK(placer_.Place(state_, job, counts, room.bounds, AdmitOf(state_, job), tasks))
      << "victims were stopped for a gang that does not land";
  const std::string winner = job.request->id.value();
  Start(job, tasks);
  // One by one, in the order of the proof, which has asked whom it would delay.
  for (const ChosenVictim& victim : victims) {
    if (victim.means != Means::kMove) continue;
    JobEntry& other = state_.at(victim.job);
    std::vector<HeldTask> places;
    CHECK(placer_.Place(state_, other, victim.counts, {}, AdmitOf(state_, other), places))
        << "a moved job does not land where it did";
    LayRanks(state_, other, places, true);
    state_.Keep(other, places);
    state_.moved_gpu_ms += LossOfMoving(other);
    SayMoved(other);
    decisions_.back().reason = "makes room for " + winner;
  }
}

// For the first gangs that wait for room and have a promise: moves that start one of them now.
void Round::Defragment() {
  const Duration period = state_.policy.defragment_period;
  if (!state_.policy.moves || period <= Duration(0)) return;
  if (state_.now - state_.defragmented_at < period) return;
  if (state_.reservations.empty() || state_.policy.placement != PlacementRule::kExact) return;
  std::vector<JobNumber> waiting;
  for (const auto& [holder, reservation] : state_.reservations) {
    const JobEntry& job = state_.at(holder);
    if (reservation.start - state_.now >= kShortWait && !job.leaving) waiting.push_back(holder);
  }
  std::sort(waiting.begin(), waiting.end(),
            [&](JobNumber a, JobNumber b) { return state_.Before(state_.at(a), state_.at(b)); });
  if (waiting.empty()) return;
  state_.defragmented_at = state_.now;
  if (waiting.size() > kMostGangs) waiting.resize(kMostGangs);
  for (const JobNumber number : waiting) {
    if (steps_ <= 0) return;
    const auto held = state_.reservations.find(number);
    if (held == state_.reservations.end()) continue;
    if (BuyMoves(state_.at(number), held->second)) return;
  }
}

bool Round::BuyMoves(JobEntry& job, const Reservation& reservation) {
  --steps_;
  if (state_.queues.Check(job.queue, MinimumAmounts(*job.request))) return false;
  const auto group = static_cast<size_t>(LargestGroup(*job.request));
  const SlotTable& table =
      state_.tables.Of(state_.resources, job.shapes[group], AdmitOf(state_, job));
  // Joined holes are no more than all holes.
  if (table.total() < job.request->groups[group].minimum) {
    const int64_t gpus = state_.resources.cluster().free_gpus;
    const int64_t needed = MinimumAmounts(*job.request)[0] / kWholeGpu;
    if (gpus < needed) return false;
  }
  const Room room = FindRoom(state_, job, Rights::kMove, placer_);
  steps_ -= room.steps / 100;
  if (!room.found) return false;
  const int64_t saved_ms = (reservation.start - state_.now) / std::chrono::milliseconds(1);
  const int64_t gang_milli = std::max<int64_t>(kWholeGpu, MinimumAmounts(*job.request)[0]);
  __extension__ using Int128 = __int128;
  const auto gain = static_cast<Int128>(gang_milli) * saved_ms / 1'000;
  if (gain <= static_cast<Int128>(2) * room.cost_gpu_ms) return false;
  // The budget: thousandths of all GPU-time so far.
  const int64_t up_ms = (state_.now - state_.began) / std::chrono::milliseconds(1);
  const int64_t capacity = state_.queues.capacity()[0];
  const auto budget =
      static_cast<Int128>(up_ms) * (capacity / kWholeGpu) * state_.policy.move_budget_milli / 1'000;
  if (budget < static_cast<Int128>(state_.moved_gpu_ms) + room.cost_gpu_ms) return false;
  // Nobody who goes before it may lose by its start.
  const Savepoint before = state_.resources.Save();
  for (const ChosenVictim& victim : room.victims) {
    for (const HeldTask& task : state_.at(victim.job).tasks) state_.resources.Remove(task.slot);
  }
  std::vector<int32_t> counts;
  for (const GroupRequest& each : job.request->groups) counts.push_back(each.minimum);
  std::vector<HeldTask> tasks;
  const bool lands = placer_.Place(state_, job, counts, room.bounds, AdmitOf(state_, job), tasks) &&
                     ForbiddenBy(state_, job, tasks) == kNoJob;
  state_.resources.RollBack(before);
  if (!lands) return false;
  MakeTheRoom(job, room, state_.next_transaction);
  return true;
}

}  // namespace longhaul::scheduler::internal
