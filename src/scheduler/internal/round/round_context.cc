#include "scheduler/internal/round/round_context.h"

#include <set>

namespace longhaul::scheduler::internal {

Decision& RoundContext::AddDecision(DecisionKind kind, uint64_t transaction, const JobEntry& job) {
  Decision& decision = decisions.emplace_back();
  decision.kind = kind;
  decision.transaction = transaction;
  decision.job = job.request->id;
  return decision;
}

std::vector<JobId> RoundContext::JobsLeaving(const std::vector<HeldTask>& tasks,
                                             const JobEntry& job) const {
  std::set<JobNumber> numbers;
  for (const HeldTask& task : tasks) {
    const auto& here = state.leaving_on[state.resources.task(task.slot).node];
    numbers.insert(here.begin(), here.end());
  }
  numbers.erase(job.number);
  std::vector<JobId> names;
  for (const JobNumber number : numbers) names.push_back(state.at(number).request->id);
  return names;
}

TaskPlacement RoundContext::PlacementOf(const HeldTask& task) const {
  const TaskRecord& record = state.resources.task(task.slot);
  return {task.group, task.rank, record.node, record.gpus};
}

}  // namespace longhaul::scheduler::internal
