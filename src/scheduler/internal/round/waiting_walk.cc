#include "scheduler/internal/round/waiting_walk.h"

#include <algorithm>

#include "scheduler/internal/round/line_turns.h"
#include "scheduler/internal/round/overdue_walk.h"
#include "scheduler/internal/round/try_start.h"

namespace longhaul::scheduler::internal {

void WaitingWalk::Run() {
  StartExpedited();
  OverdueWalk(context_, reservations_).Run();
  StartInFairOrder();
}

void WaitingWalk::StartExpedited() {
  SchedulerState& state = context_.state;
  std::vector<JobNumber> expedited(state.expedited.begin(), state.expedited.end());
  std::sort(expedited.begin(), expedited.end(), [&](JobNumber a, JobNumber b) {
    return state.at(a).expedited > state.at(b).expedited;
  });
  for (const JobNumber number : expedited) {
    JobEntry& job = state.at(number);
    // An expedited job gets room at once, before the walk places other jobs on what is free.
    if (!TryStart(context_, job)) preemption_.TryMakeRoom(job);
  }
}

void WaitingWalk::StartInFairOrder() {
  SchedulerState& state = context_.state;
  LineTurns turns(state, LineTurns::Purpose::kPlace);
  share::FairOrder order = turns.Order();
  for (share::QueueIndex queue = order.Next(); queue != share::kNoQueue && context_.steps_left > 0;
       queue = order.Next()) {
    const JobNumber head = turns.HeadOf(queue);
    if (head == kNoJob) {
      order.Close(queue);
      continue;
    }
    JobEntry& job = state.at(head);
    if (TryStart(context_, job)) {
      order.Refresh(queue);
      continue;
    }
    // Without backfill no later job may overtake this one.
    if (state.policy.backfill == Backfill::kNone) {
      order.Close(queue);
      continue;
    }
    // A job that a quota or the order of its queue keeps back gets no reservation: it lacks no
    // room.
    if (job.block.kind == Block::Kind::kRoom || job.block.kind == Block::Kind::kReservation) {
      reservations_.Reserve(job);
    }
    turns.Park(job.line);
  }
}

}  // namespace longhaul::scheduler::internal
