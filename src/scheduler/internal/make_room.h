// Room for a gang that has a right to it: whom to shrink, suspend or stop, proven to land.
//
// Candidates are running jobs of the same queue with a lower priority, and jobs of other queues
// that hold what those borrowed while the gang stays within its own queue's guarantee. The cost of
// a candidate is what stopping it loses: its GPUs times the time since its last snapshot and its
// restart, and more for a higher priority. The search (victims/victim_search.h) finds the cheapest
// set; each set is proven by placing the gang in a transaction that is undone.
//
// Moving comes before stopping: what may be stopped at all may be moved, whosever it is, if it
// finds another place under its own rules once the gang has landed. A set of moves alone is taken
// where it loses less than the stops; else those of the stops that find a place become moves. Where
// neither alone serves, the cheapest moves beside all stops are taken, and stops that can be spared
// are: no promise of the least cost.
#pragma once

#include <cstdint>
#include <vector>

#include "scheduler/internal/placer.h"
#include "scheduler/victims/victim_search.h"

namespace longhaul::scheduler::internal {

struct ChosenVictim {
  JobNumber job = kNoJob;
  Means means = Means::kEvict;
  std::vector<int32_t> ranks;   // kShrink: which leave
  std::vector<int32_t> counts;  // kMove: its tasks, by group
};

struct Room {
  bool found = false;
  bool proven = true;  // no set of stops costs less; where none was found: there is none
  int64_t cost_gpu_ms = 0;
  std::vector<ChosenVictim> victims;
  Bounds bounds;  // where the gang lands
  int64_t steps = 0;
};

// Whose tasks may be taken.
enum class Rights : uint8_t {
  kOwn,       // the claimant's by queue and priority, within budgets
  kOperator,  // anybody's: for explanations, which name what an operator could do
  kMove,      // nobody's: all continue elsewhere
};

// Victims for the job's minimum. The state is as before afterwards.
Room FindRoom(SchedulerState& state, const JobEntry& job, Rights rights, Placer& placer);

// Whether anybody at all could have to give way; cheap, for jobs that ask in every round.
bool MayClaim(const SchedulerState& state, const JobEntry& job);

// Whether `job` may take tasks of `other`, but for when that one started.
bool MayTakeFrom(const SchedulerState& state, const JobEntry& job, const JobEntry& other);

// Puts those of `victims` that move elsewhere, in their order, in the state; false when one finds
// no place, or only one that is promised to another. Requires that none has tasks in the state.
// `winner` is who gets their room.
bool PlaceMoved(SchedulerState& state, Placer& placer, JobNumber winner,
                const std::vector<ChosenVictim>& victims,
                std::vector<std::vector<HeldTask>>& placed);

// What moving a running job loses: it stands still while it starts anew from its state.
int64_t LossOfMoving(const JobEntry& job);

// What stopping a running job loses, in GPU-milliseconds.
int64_t LossOfStopping(const SchedulerState& state, const JobEntry& job);

}  // namespace longhaul::scheduler::internal
