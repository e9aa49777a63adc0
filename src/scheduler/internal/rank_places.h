// Rank -> GPU for jobs that say how their ranks talk: gang/rank_order.h on the hosts they got.
#pragma once

#include <vector>

#include "scheduler/internal/scheduler_state.h"

namespace longhaul::scheduler::internal {

// Lays the ranks of a job with a layout onto the GPUs of `tasks`, which are all it has. With
// `renumber` the tasks get new ranks too, in the order of their first GPU's rank; without, they
// keep theirs. A job without a layout is left as it is.
void LayRanks(const SchedulerState& state, JobEntry& job, std::vector<HeldTask>& tasks,
              bool renumber);

// By rank, from what the job holds now; empty without a layout, or while tasks are lost.
std::vector<GpuOfRank> GpusOfRanks(const SchedulerState& state, const JobEntry& job);

}  // namespace longhaul::scheduler::internal
