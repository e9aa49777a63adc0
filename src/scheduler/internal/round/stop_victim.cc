#include "scheduler/internal/round/stop_victim.h"

#include <algorithm>
#include <string>

#include "scheduler/internal/rank_places.h"

namespace longhaul::scheduler::internal {

void StopVictim(RoundContext& context, const ChosenVictim& victim, const JobEntry& winner,
                uint64_t transaction) {
  SchedulerState& state = context.state;
  JobEntry& job = state.at(victim.job);
  const std::string reason = "makes room for " + winner.request->id.value();
  if (victim.means == Means::kShrink) {
    Decision& shrink = context.AddDecision(DecisionKind::kShrink, transaction, job);
    shrink.reason = reason;
    for (size_t i = job.tasks.size(); i-- > 0;) {
      const HeldTask task = job.tasks[i];
      if (!std::binary_search(victim.ranks.begin(), victim.ranks.end(), task.rank)) continue;
      shrink.tasks.push_back(context.PlacementOf(task));
      state.Drop(job, i);
    }
    state.resources.Commit();
    state.Renumber(job);
    LayRanks(state, job, job.tasks, false);
    shrink.ranks = GpusOfRanks(state, job);
    return;
  }
  Decision& stop = context.AddDecision(
      victim.means == Means::kSuspend ? DecisionKind::kSuspend : DecisionKind::kEvict, transaction,
      job);
  stop.tasks = state.PlacementsOf(job);
  stop.reason = reason;
  std::erase_if(job.evictions,
                [&](Instant at) { return at + std::chrono::hours(24) <= state.now; });
  job.evictions.push_back(state.now);
  state.Requeue(job, true);
}

}  // namespace longhaul::scheduler::internal
