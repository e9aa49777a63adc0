// The running jobs from which a waiting job may take room, and what each of them would lose.
//
// Candidates are running jobs of the same queue with a lower priority, and jobs of other queues
// that hold what those borrowed, while the claimant stays within its own queue's guarantee.
#pragma once

#include <cstdint>
#include <vector>

#include "scheduler/internal/scheduler_state.h"
#include "scheduler/victims/victim_search.h"

namespace longhaul::scheduler::internal {

// Whose tasks may be taken.
enum class Rights : uint8_t {
  kOwn,       // the claimant's by queue and priority, within budgets
  kOperator,  // of every job: for explanations, which name what an operator could do
  kMove,      // of none: all jobs continue elsewhere
};

struct VictimCandidate {
  const JobEntry* job = nullptr;
  int64_t excess = 0;        // of its queue beyond the guarantee, thousandths of the cluster
  int64_t cost = 0;          // GPU-milliseconds
  int32_t spare_pieces = 0;  // elastic steps that it may have to give
  bool may_stop = true;      // else it may only shrink or move
};

struct VictimCandidates {
  std::vector<VictimCandidate> jobs;  // the largest excess first, then the cheapest
  // Some jobs may be taken alone, but not, or not as a whole, together with all that come before
  // them. They are left out or limited.
  bool dropped = false;
};

// The jobs that may be stopped, shrunk or moved for `job`. With `also_conflicting`, those that the
// rules allow alone but not together are kept, and each set has to be checked.
VictimCandidates FindVictimCandidates(const SchedulerState& state, const JobEntry& job,
                                      Rights rights, bool also_conflicting);

// Whether any job could have to give way to `job`. Cheap, for jobs that are tried in every round.
bool MayClaim(const SchedulerState& state, const JobEntry& job);

// Whether `job` may take tasks of `other`, whenever that one started.
bool MayTakeFrom(const SchedulerState& state, const JobEntry& job, const JobEntry& other);

// Whether the job may be moved to other nodes now. A job that started in this round, that lost
// tasks, whose start is not confirmed or that was moved recently may not.
bool IsMovable(const SchedulerState& state, const JobEntry& job);

bool IsElastic(const JobEntry& job);

// What moving a running job loses, in GPU-milliseconds: it stands still while it starts anew from
// its state.
int64_t LossOfMoving(const JobEntry& job);

// What stopping a running job loses, in GPU-milliseconds: its GPUs times the time since its last
// snapshot and its restart, and more for a higher priority.
int64_t LossOfStopping(const SchedulerState& state, const JobEntry& job);

}  // namespace longhaul::scheduler::internal
