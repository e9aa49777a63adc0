#include "scheduler/internal/round.h"

#include <algorithm>
#include <set>
#include <utility>

#include "base/check.h"

namespace longhaul::scheduler::internal {

std::vector<Decision> Round::Run() {
  decisions_ = std::move(state_.rejections);
  state_.rejections.clear();
  if (std::exchange(state_.claims_spared, false)) ++state_.started_version;
  Settle();
  Repair();
  RefreshReservations();
  Walk();
  MakeRoom();
  FillReservations();
  Defragment();
  Grow();
  return std::move(decisions_);
}

Decision& Round::Say(DecisionKind kind, uint64_t transaction, const JobEntry& job) {
  Decision& decision = decisions_.emplace_back();
  decision.kind = kind;
  decision.transaction = transaction;
  decision.job = job.request->id;
  return decision;
}

std::vector<JobId> Round::Leaving(const std::vector<HeldTask>& tasks, const JobEntry& job) const {
  std::set<JobNumber> numbers;
  for (const HeldTask& task : tasks) {
    const auto& here = state_.leaving_on[state_.resources.task(task.slot).node];
    numbers.insert(here.begin(), here.end());
  }
  numbers.erase(job.number);
  std::vector<JobId> names;
  for (const JobNumber number : numbers) names.push_back(state_.at(number).request->id);
  return names;
}

void Round::Settle() {
  while (!state_.bind_deadlines.empty() && state_.bind_deadlines.begin()->first <= state_.now) {
    JobEntry& job = state_.at(state_.bind_deadlines.begin()->second);
    Decision& undo = Say(DecisionKind::kUndo, job.transaction, job);
    undo.tasks = state_.PlacementsOf(job);
    undo.reason = "its start was not confirmed in time";
    state_.Requeue(job, true);
  }
}

}  // namespace longhaul::scheduler::internal
