#include "scheduler/internal/round/overdue_walk.h"

#include "scheduler/internal/round/try_start.h"

namespace longhaul::scheduler::internal {

void OverdueWalk::Run() {
  SchedulerState& state = context_.state;
  if (state.policy.backfill == Backfill::kNone || state.waiting.empty()) return;
  // The oldest job decides: in the common case nothing is overdue, and the queues are not walked.
  if (!state.IsOverdue(state.at(state.waiting.First()->number))) return;
  // One job of each queue at a time. A queue whose job fails adds no other in this round, so the
  // order within a queue holds for overdue jobs as well.
  for (size_t q = 0; q < state.queues.size(); ++q) AddFirstOf(static_cast<share::QueueIndex>(q));
  while (!jobs_.empty() && context_.steps_left > 0) {
    JobEntry& job = state.at(jobs_.begin()->second);
    jobs_.erase(jobs_.begin());
    const share::QueueIndex queue = job.queue;
    if (!IsParked(job)) {
      if (TryStart(context_, job)) {
        AddFirstOf(queue);
        continue;
      }
      HandleFailure(job);
    }
    // A reservation that an earlier round left for a parked job counts towards the limit too.
    if (state.reservations.contains(job.number)) ++reserved_;
  }
}

void OverdueWalk::AddFirstOf(share::QueueIndex queue) {
  const SchedulerState& state = context_.state;
  const JobEntry* first = nullptr;
  for (const uint32_t line : state.lines_of_queue[static_cast<size_t>(queue)]) {
    const JobEntry& job = state.at(state.lines[line].jobs.begin()->second);
    if (first == nullptr || state.Before(job, *first)) first = &job;
  }
  if (first != nullptr && state.IsOverdue(*first))
    jobs_.insert({first->waits_since(), first->number});
}

bool OverdueWalk::IsParked(const JobEntry& job) const {
  const Line& line = context_.state.lines[job.line];
  return line.parked && line.parked_at == context_.state.Versions();
}

void OverdueWalk::HandleFailure(JobEntry& job) {
  const bool lacks_room =
      job.block.kind == Block::Kind::kRoom || job.block.kind == Block::Kind::kReservation;
  if (lacks_room && reserved_ < context_.state.policy.overdue_reservations) {
    reservations_.Reserve(job);
  }
  Line& line = context_.state.lines[job.line];
  line.parked = true;
  line.parked_at = context_.state.Versions();
}

}  // namespace longhaul::scheduler::internal
