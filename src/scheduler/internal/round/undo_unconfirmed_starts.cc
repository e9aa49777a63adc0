#include "scheduler/internal/round/undo_unconfirmed_starts.h"

namespace longhaul::scheduler::internal {

void UndoUnconfirmedStarts(RoundContext& context) {
  SchedulerState& state = context.state;
  while (!state.bind_deadlines.empty() && state.bind_deadlines.begin()->first <= state.now) {
    JobEntry& job = state.at(state.bind_deadlines.begin()->second);
    Decision& undo = context.AddDecision(DecisionKind::kUndo, job.transaction, job);
    undo.tasks = state.PlacementsOf(job);
    undo.reason = "its start was not confirmed in time";
    state.Requeue(job, true);
  }
}

}  // namespace longhaul::scheduler::internal
