#include "scheduler/internal/round.h"

#include <algorithm>
#include <set>
#include <utility>

#include "base/check.h"

namespace longhaul::scheduler::internal {

std::vector<Decision> Round::Run() {
  decisions_ = std::move(books_.rejections);
  books_.rejections.clear();
  if (std::exchange(books_.claims_spared, false)) ++books_.started_version;
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

Decision& Round::Say(DecisionKind kind, uint64_t transaction, const Job& job) {
  Decision& decision = decisions_.emplace_back();
  decision.kind = kind;
  decision.transaction = transaction;
  decision.job = job.request->id;
  return decision;
}

std::vector<JobId> Round::Leaving(const std::vector<HeldTask>& tasks, const Job& job) const {
  std::set<JobNumber> numbers;
  for (const HeldTask& task : tasks) {
    const auto& here = books_.leaving_on[books_.state.task(task.slot).node];
    numbers.insert(here.begin(), here.end());
  }
  numbers.erase(job.number);
  std::vector<JobId> names;
  for (const JobNumber number : numbers) names.push_back(books_.at(number).request->id);
  return names;
}

void Round::Settle() {
  while (!books_.bind_deadlines.empty() && books_.bind_deadlines.begin()->first <= books_.now) {
    Job& job = books_.at(books_.bind_deadlines.begin()->second);
    Decision& undo = Say(DecisionKind::kUndo, job.transaction, job);
    undo.tasks = books_.PlacementsOf(job);
    undo.reason = "its start was not confirmed in time";
    books_.Requeue(job, true);
  }
}

}  // namespace longhaul::scheduler::internal
