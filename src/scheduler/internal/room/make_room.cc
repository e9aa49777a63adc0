#include "scheduler/internal/room/make_room.h"

#include <utility>
#include <vector>

#include "scheduler/internal/room/room_search.h"
#include "scheduler/internal/room/staged_room.h"

namespace longhaul::scheduler::internal {

namespace {

// FindRoom in one stage, for a job whose groups are not bound to one of several models.
Room FindRoomAtOnce(SchedulerState& state, const JobEntry& job, Rights rights, Placer& placer) {
  RoomSearch safe(state, job, rights, placer, false);
  Room room;
  if (rights == Rights::kOwn && !safe.dropped() && safe.UserForbids()) return room;
  if (safe.dropped()) room = RoomSearch(state, job, rights, placer, true).Run();
  if (!safe.dropped() || !room.found || !room.proven) {
    // Every subset of these is allowed, so the search needs no check.
    Room simple = safe.Run();
    simple.steps += room.steps;
    const bool better =
        simple.found && (!room.found || simple.bounds.within_tier < room.bounds.within_tier ||
                         (simple.bounds.within_tier == room.bounds.within_tier &&
                          simple.cost_gpu_ms < room.cost_gpu_ms));
    if (better || !safe.dropped()) {
      room = std::move(simple);
    } else {
      room.steps = simple.steps;
    }
  }
  const bool beside_reservations =
      rights == Rights::kOwn && job.block.kind == Block::Kind::kReservation;
  // Moves and combinations are not tried beside reservations, where the job may use the victims'
  // own hosts only.
  if (beside_reservations) return room;
  if (!room.found && !room.proven && rights != Rights::kMove && job.request->groups.size() > 1) {
    const int64_t steps = room.steps;
    room = safe.SpareFromAll();
    room.steps += steps;
  }
  if (rights != Rights::kOwn) return room;
  // Moves only join free slots.
  const auto group = static_cast<size_t>(LargestGroup(*job.request));
  const SlotTable& table = state.tables.Of(state.resources, job.shapes[group], AdmitOf(state, job));
  Room moves;
  if (table.total() >= job.request->groups[group].minimum) {
    moves = RoomSearch(state, job, Rights::kMove, placer, false).Run();
  }
  if (moves.found && (!room.found || moves.cost_gpu_ms < room.cost_gpu_ms)) {
    moves.steps += room.steps;
    return moves;
  }
  room.steps += moves.steps;
  if (room.found || !state.policy.moves) return room;
  Room both = safe.StopsAndMoves();
  both.steps += room.steps;
  if (both.found) return both;
  room.steps = both.steps;
  return room;
}

// FindRoom for a job whose groups are not bound to one of several models.
Room FindRoomOnAnyModel(SchedulerState& state, const JobEntry& job, Rights rights, Placer& placer) {
  Room room = FindRoomAtOnce(state, job, rights, placer);
  const bool staged = !room.found && rights == Rights::kOwn &&
                      job.block.kind != Block::Kind::kReservation && IsHeldUpByParents(state, job);
  if (!staged) return room;
  const int64_t steps = room.steps;
  room = FindRoomInStages(state, job, placer);
  room.steps += steps;
  return room;
}

// The job on the models of `choice`: a copy whose groups are bound to one model each, so that the
// search below counts slots of these models only.
JobEntry OnModels(const SchedulerState& state, const JobEntry& job, const ModelChoice& choice) {
  JobEntry on_models = job;
  for (size_t g = 0; g < choice.models.size(); ++g) {
    for (const ShapeId shape : job.shapes_of_models[g]) {
      if (state.resources.shape(shape).models == choice.models[g]) on_models.shapes[g] = shape;
    }
  }
  on_models.shapes_of_models.clear();
  return on_models;
}

// One choice for each model that the only group of a job could be on.
std::vector<ModelChoice> ChoicesOfOneModel(const SchedulerState& state, const JobEntry& job) {
  std::vector<ModelChoice> choices;
  for (const ShapeId shape : job.shapes_of_models[0]) {
    choices.push_back({{state.resources.shape(shape).models}, {}});
  }
  return choices;
}

}  // namespace

Room FindRoom(SchedulerState& state, const JobEntry& job, Rights rights, Placer& placer) {
  // Without quotas by model, room for a job of several groups is searched with all models: the
  // proof rejects what lies on two of them.
  const bool counts = state.counts_models();
  if (job.shapes_of_models.empty() || (!counts && job.shapes_of_models.size() > 1)) {
    return FindRoomOnAnyModel(state, job, rights, placer);
  }
  Room best;
  for (const ModelChoice& choice :
       counts ? ModelChoicesOf(state, job) : ChoicesOfOneModel(state, job)) {
    Room room = FindRoomOn(state, job, choice, rights, placer);
    const int64_t steps = best.steps + room.steps;
    const bool proven = best.proven && room.proven;
    if (room.found && (!best.found || room.cost_gpu_ms < best.cost_gpu_ms)) best = std::move(room);
    best.steps = steps;
    best.proven = proven;
  }
  return best;
}

Room FindRoomOn(SchedulerState& state, const JobEntry& job, const ModelChoice& choice,
                Rights rights, Placer& placer) {
  if (choice.models.empty()) return FindRoom(state, job, rights, placer);
  Room room = FindRoomOnAnyModel(state, OnModels(state, job, choice), rights, placer);
  room.bounds.models = choice.models;
  return room;
}

}  // namespace longhaul::scheduler::internal
