// The data that all passes of one scheduling round share.
//
// Each pass changes the state and appends the decisions that describe its changes. A pass stops
// early when no steps are left, and the caller continues in the next round.
#pragma once

#include <cstdint>
#include <vector>

#include "scheduler/decision.h"
#include "scheduler/internal/placer.h"
#include "scheduler/internal/scheduler_state.h"

namespace longhaul::scheduler::internal {

struct RoundContext {
  // `state_in` and `placer_in` outlive the context. `steps` is the number of placements and search
  // steps that the round may use.
  RoundContext(SchedulerState& state_in, Placer& placer_in, int64_t steps)
      : state(state_in), placer(placer_in), steps_left(steps) {}

  // Appends a decision about `job` and returns it, so that the caller can fill in the other fields.
  // The reference is valid until the next decision is appended.
  Decision& AddDecision(DecisionKind kind, uint64_t transaction, const JobEntry& job);

  // Returns the jobs other than `job` that were ordered to stop and still occupy a node of `tasks`,
  // by their numbers.
  std::vector<JobId> JobsLeaving(const std::vector<HeldTask>& tasks, const JobEntry& job) const;

  // Returns the node and the GPUs of a task that is placed in the state.
  TaskPlacement PlacementOf(const HeldTask& task) const;

  SchedulerState& state;
  Placer& placer;
  int64_t steps_left;  // may fall below zero: a pass looks at it between two steps
  std::vector<Decision> decisions;
  std::vector<JobNumber> begun;  // jobs that this round has started or moved
};

}  // namespace longhaul::scheduler::internal
