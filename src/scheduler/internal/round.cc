#include "scheduler/internal/round.h"

#include <algorithm>
#include <set>

#include "base/check.h"

namespace longhaul::scheduler::internal {

namespace {

// An engine that refuses a task so often has another problem than the node.
constexpr uint32_t kMostRefusals = 3;

}  // namespace

std::vector<Decision> Round::Run() {
  decisions_ = std::move(books_.rejections);
  books_.rejections.clear();
  Settle();
  Repair();
  RefreshReservations();
  Walk();
  MakeRoom();
  FillReservations();
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

void Round::Repair() {
  const std::vector<JobNumber> damaged(books_.damaged.begin(), books_.damaged.end());
  for (const JobNumber number : damaged) RepairJob(books_.at(number));
}

// Replaces what was lost; else goes on with fewer; else gives up and waits again.
void Round::RepairJob(Job& job) {
  --steps_;
  std::sort(job.lost.begin(), job.lost.end());
  std::vector<HeldTask> placed;
  const Savepoint before = books_.state.Save();
  const bool patient = books_.policy.repair_patience > Duration(0) && job.refusals == 0;
  bool whole = job.refusals <= kMostRefusals &&
               (!job.tasks.empty() || (patient && job.request->groups.size() == 1));
  for (size_t i = 0; i < job.lost.size() && whole;) {
    const int32_t group = job.lost[i].first;
    std::vector<int32_t> ranks;
    for (; i < job.lost.size() && job.lost[i].first == group; ++i) {
      ranks.push_back(job.lost[i].second);
    }
    whole = placer_.PlaceMore(books_, job, group, ranks, Admit::kSpareToo, placed);
  }
  if (!whole) {
    books_.state.RollBack(before);
    if (ShrinkToSurvivors(job)) return;
    if (patient && books_.now < job.lost_since + books_.policy.repair_patience) return;
    Decision& undo =
        Say(job.bind_by ? DecisionKind::kUndo : DecisionKind::kEvict, job.transaction, job);
    undo.tasks = books_.PlacementsOf(job);
    undo.reason = "tasks were lost and cannot be replaced under its rules";
    books_.Requeue(job, !job.tasks.empty());
    return;
  }
  job.transaction = books_.next_transaction++;
  Decision& repair = Say(DecisionKind::kRepair, job.transaction, job);
  repair.after = Leaving(placed, job);
  for (const HeldTask& task : placed) {
    const TaskRecord& record = books_.state.task(task.slot);
    repair.tasks.push_back({task.group, task.rank, record.node, record.cards});
  }
  books_.Keep(job, placed);
  job.lost.clear();
  books_.damaged.erase(job.number);
  if (job.bind_by) books_.bind_deadlines.erase({*job.bind_by, job.number});
  job.bind_by = books_.now + books_.policy.bind_deadline;
  books_.bind_deadlines.insert({*job.bind_by, job.number});
}

// Whole steps leave: with each lost task the rest of its step.
bool Round::ShrinkToSurvivors(Job& job) {
  if (job.request->groups.size() != 1 || job.refusals > kMostRefusals) return false;
  const GroupRequest& group = job.request->groups[0];
  const auto had = static_cast<int32_t>(job.tasks.size() + job.lost.size());
  const auto left = static_cast<int32_t>(job.tasks.size());
  if (left < group.minimum || group.desired == group.minimum) return false;
  const int32_t target = group.minimum + (left - group.minimum) / group.step * group.step;
  if (target >= had) return false;
  Decision& shrink = Say(DecisionKind::kShrink, job.transaction, job);
  shrink.reason = "tasks were lost; it goes on with fewer";
  while (static_cast<int32_t>(job.tasks.size()) > target) {
    const HeldTask& last = job.tasks.back();
    const TaskRecord& record = books_.state.task(last.slot);
    shrink.tasks.push_back({last.group, last.rank, record.node, record.cards});
    books_.Drop(job, job.tasks.size() - 1);
  }
  books_.state.Commit();
  books_.Renumber(job);
  job.lost.clear();
  books_.damaged.erase(job.number);
  return true;
}

}  // namespace longhaul::scheduler::internal
