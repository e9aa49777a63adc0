#include "scheduler/internal/round/overdue_walk.h"

#include <algorithm>

#include "scheduler/internal/round/try_start.h"

namespace longhaul::scheduler::internal {

void OverdueWalk::Run() {
  SchedulerState& state = context_.state;
  if (state.policy.backfill == Backfill::kNone || state.waiting.empty()) return;
  // The oldest job decides: in the common case nothing is overdue, and the queues are not walked.
  if (!state.IsOverdue(state.at(state.waiting.First()->number))) return;
  for (size_t q = 0; q < state.queues.size(); ++q) AddFirstOf(static_cast<share::QueueIndex>(q));
  while (!jobs_.empty() && context_.steps_left > 0) {
    JobEntry& job = state.at(jobs_.begin()->second);
    jobs_.erase(jobs_.begin());
    const share::QueueIndex queue = job.queue;
    if (!TryStart(context_, job)) {
      if (MayReserve(job)) reservations_.Reserve(job);
      turns_.Park(job.line);
    }
    AddFirstOf(queue);
  }
}

void OverdueWalk::AddFirstOf(share::QueueIndex queue) {
  const SchedulerState& state = context_.state;
  const JobNumber first = turns_.HeadOf(queue);
  if (first == kNoJob) return;
  const JobEntry& job = state.at(first);
  if (state.IsOverdue(job)) jobs_.insert({job.waits_since(), first});
}

bool OverdueWalk::MayReserve(const JobEntry& job) const {
  const SchedulerState& state = context_.state;
  if (job.block.kind != Block::Kind::kRoom && job.block.kind != Block::Kind::kReservation) {
    return false;
  }
  const auto older =
      std::count_if(state.reservations.begin(), state.reservations.end(), [&](const auto& entry) {
        const JobEntry& holder = state.at(entry.first);
        return holder.number != job.number && state.IsOverdue(holder) &&
               holder.waits_since() <= job.waits_since();
      });
  return static_cast<uint32_t>(older) < state.policy.overdue_reservations;
}

}  // namespace longhaul::scheduler::internal
