#include "scheduler/internal/round/record_move.h"

#include <utility>

#include "scheduler/internal/rank_places.h"

namespace longhaul::scheduler::internal {

void RecordMove(RoundContext& context, JobEntry& job, std::string reason) {
  SchedulerState& state = context.state;
  // The old tasks have to stop before the new ones can start: twice the time of a start.
  state.Confirmable(job, state.policy.bind_deadline * 2);
  job.started_in_round = state.rounds;
  context.begun.push_back(job.number);
  // The move begins with a snapshot.
  job.last_snapshot = state.now;
  std::erase_if(job.moves, [&](Instant at) { return at + std::chrono::hours(24) <= state.now; });
  job.moves.push_back(state.now);
  Decision& move = context.AddDecision(DecisionKind::kMove, job.transaction, job);
  move.tasks = state.PlacementsOf(job);
  move.ranks = GpusOfRanks(state, job);
  move.after = context.JobsLeaving(job.tasks, job);
  move.reason = std::move(reason);
}

}  // namespace longhaul::scheduler::internal
