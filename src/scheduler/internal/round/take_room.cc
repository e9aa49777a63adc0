#include "scheduler/internal/round/take_room.h"

#include <string>
#include <utility>

#include "base/check.h"
#include "scheduler/internal/planning.h"
#include "scheduler/internal/rank_places.h"
#include "scheduler/internal/round/record_move.h"
#include "scheduler/internal/round/stop_victim.h"
#include "scheduler/internal/round/try_start.h"

namespace longhaul::scheduler::internal {

void TakeRoom(RoundContext& context, JobEntry& job, const Room& room) {
  SchedulerState& state = context.state;
  const uint64_t transaction = state.next_transaction;
  for (const ChosenVictim& victim : room.victims) {
    // Jobs to be moved leave their places before the gang is placed and get their new ones after
    // it, which is the sequence in which the search has proven that all of them land.
    if (victim.means == Means::kMove) {
      state.Uproot(state.at(victim.job));
    } else {
      StopVictim(context, victim, job, transaction);
    }
  }
  std::vector<int32_t> counts;
  for (const GroupRequest& group : job.request->groups) counts.push_back(group.minimum);
  std::vector<HeldTask> tasks;
  CHECK(context.placer.Place(state, job, counts, room.bounds, AdmitOf(state, job), tasks))
      << "victims were stopped for a gang that does not land";
  StartOn(context, job, std::move(tasks));
  // In the order of the proof, which has checked that no move delays a reservation.
  for (const ChosenVictim& victim : room.victims) {
    if (victim.means != Means::kMove) continue;
    JobEntry& other = state.at(victim.job);
    std::vector<HeldTask> places;
    Bounds bounds;
    bounds.models = victim.models;
    CHECK(context.placer.Place(state, other, victim.counts, bounds, AdmitOf(state, other), places))
        << "a moved job does not land where it did";
    ChargeReservations(state, other.number, EndOfMoved(state, other), places);
    LayRanks(state, other, places, true);
    state.Keep(other, places);
    state.moved_gpu_ms += LossOfMoving(other);
    RecordMove(context, other, "makes room for " + job.request->id.value());
  }
}

}  // namespace longhaul::scheduler::internal
