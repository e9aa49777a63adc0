// Room for a waiting job that has a right to it: which running jobs to shrink, suspend, stop or
// move, proven to suffice.
//
// The cost of a candidate (victim_candidates.h) is what stopping it loses. The search
// (victims/victim_search.h) finds the cheapest set, and each set is proven by placing the waiting
// job in a transaction that is undone.
//
// Moving comes before stopping: a job that may be stopped at all may be moved, whichever queue it
// is in, if it finds another place under its own rules once the waiting job has landed. A set of
// moves alone is taken if it loses less than the stops; else those of the stops that find a place
// become moves. Where neither alone suffices, the cheapest moves beside all stops are taken and
// stops that are not needed are dropped; that set may not be the cheapest.
#pragma once

#include <cstdint>
#include <vector>

#include "scheduler/internal/placer.h"
#include "scheduler/internal/quota_check.h"
#include "scheduler/internal/victim_candidates.h"
#include "scheduler/victims/victim_search.h"

namespace longhaul::scheduler::internal {

struct ChosenVictim {
  JobNumber job = kNoJob;
  Means means = Means::kEvict;
  std::vector<int32_t> ranks;    // kShrink: those that leave
  std::vector<int32_t> counts;   // kMove: its tasks, by group
  std::vector<uint64_t> models;  // kMove: as Bounds::models
};

struct Room {
  bool found = false;
  bool proven = true;  // no set of stops costs less; where none was found: there is none
  int64_t cost_gpu_ms = 0;
  std::vector<ChosenVictim> victims;
  Bounds bounds;  // where the waiting job lands
  int64_t steps = 0;
};

// Returns the victims for the job's minimum. The state is as before afterwards.
Room FindRoom(SchedulerState& state, const JobEntry& job, Rights rights, Placer& placer);
// The same on the models of one choice (ModelChoicesOf).
Room FindRoomOn(SchedulerState& state, const JobEntry& job, const ModelChoice& choice,
                Rights rights, Placer& placer);

}  // namespace longhaul::scheduler::internal
