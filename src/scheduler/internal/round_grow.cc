// What nobody who waits could use goes to elastic jobs, a step at a time, the least grown first.
#include <algorithm>
#include <numeric>

#include "scheduler/internal/planning.h"
#include "scheduler/internal/round.h"

namespace longhaul::scheduler::internal {

void Round::Grow() {
  if (books_.now - books_.grown_at < books_.policy.elastic_period) return;
  books_.grown_at = books_.now;
  books_.grown_seen = books_.Versions();
  if (books_.elastic.empty()) return;
  std::vector<std::pair<int64_t, JobNumber>> order;  // by thousandths of what it wants beyond
  for (const JobNumber number : books_.elastic) {
    const Job& job = books_.at(number);
    const GroupRequest& group = job.request->groups[0];
    const auto has = static_cast<int32_t>(job.tasks.size());
    if (job.request->groups.size() != 1 || has >= group.desired || !job.lost.empty()) continue;
    if (job.bind_by) continue;  // first things first
    order.emplace_back((has - group.minimum) * 1000 / (group.desired - group.minimum), number);
  }
  std::sort(order.begin(), order.end());
  for (const auto& [grown, number] : order) {
    if (steps_ <= 0) return;
    --steps_;
    Job& job = books_.at(number);
    const GroupRequest& group = job.request->groups[0];
    if (books_.queues.Check(job.queue, AmountsOf(group.shape, group.step))) continue;
    std::vector<int32_t> ranks(static_cast<size_t>(group.step));
    std::iota(ranks.begin(), ranks.end(), static_cast<int32_t>(job.tasks.size()));
    const Savepoint before = books_.state.Save();
    std::vector<HeldTask> placed;
    if (!placer_.PlaceMore(books_, job, 0, ranks, Admit::kReady, placed)) continue;
    if (ForbiddenBy(books_, job, placed) != kNoJob) {
      books_.state.RollBack(before);
      continue;
    }
    ChargeReservations(books_, job, placed);
    job.transaction = books_.next_transaction++;
    Decision& grow = Say(DecisionKind::kGrow, job.transaction, job);
    grow.after = Leaving(placed, job);
    for (const HeldTask& task : placed) {
      const TaskRecord& record = books_.state.task(task.slot);
      grow.tasks.push_back({task.group, task.rank, record.node, record.cards});
    }
    books_.Keep(job, placed);
    job.bind_by = books_.now + books_.policy.bind_deadline;
    books_.bind_deadlines.insert({*job.bind_by, number});
  }
}

}  // namespace longhaul::scheduler::internal
