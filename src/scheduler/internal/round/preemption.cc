#include "scheduler/internal/round/preemption.h"

#include <algorithm>

#include "scheduler/internal/room/staged_room.h"
#include "scheduler/internal/round/line_turns.h"
#include "scheduler/internal/round/stop_victim.h"
#include "scheduler/internal/round/take_room.h"
#include "scheduler/internal/round/try_start.h"

namespace longhaul::scheduler::internal {

// In the fair order, and one job a turn: each success changes the usage of the winner's and the
// victims' queues, so their places in the order are computed anew. A line whose head fails is
// parked, since jobs of one line fail alike.
void PreemptionPass::Run() {
  SchedulerState& state = context_.state;
  if (!state.policy.preempt) return;
  LineTurns turns(state, LineTurns::Purpose::kPreempt);
  share::FairOrder order = turns.Order();
  for (share::QueueIndex queue = order.Next(); queue != share::kNoQueue && context_.steps_left > 0;
       queue = order.Next()) {
    const JobNumber head = turns.HeadOf(queue);
    if (head == kNoJob) {
      order.Close(queue);
      continue;
    }
    JobEntry& job = state.at(head);
    const uint32_t line = job.line;
    const std::vector<Decision>& decisions = context_.decisions;
    const size_t before = decisions.size();
    if (!TryMakeRoom(job)) {
      turns.Park(line);
      continue;
    }
    order.Refresh(queue);
    for (size_t i = before; i < decisions.size(); ++i) {
      if (const JobEntry* changed = state.Find(decisions[i].job)) order.Refresh(changed->queue);
    }
  }
}

bool PreemptionPass::TryMakeRoom(JobEntry& job) {
  if (FindAndTakeRoom(job)) return true;
  if (!job.leaving && context_.state.policy.preempt) NoteSpared(job);
  return false;
}

bool PreemptionPass::FindAndTakeRoom(JobEntry& job) {
  SchedulerState& state = context_.state;
  if (job.leaving || !state.policy.preempt || !MayClaim(state, job)) return false;
  // Where there is room that is reserved for a job that goes before, victims give room beside it.
  const bool reserved = job.block.kind == Block::Kind::kReservation;
  if (!reserved && OneGpuVictims::Serves(job)) {
    --context_.steps_left;
    const OneGpuVictims::Choice choice = one_gpu_.Choose(job);
    if (choice.outcome == OneGpuVictims::Outcome::kFound) {
      StartOnOneGpu(job, choice);
      return true;
    }
    // The short way finds single victims only. A claim that limits of parent queues block may need
    // several victims in stages, so the general search still runs for it.
    const bool nobody = choice.outcome == OneGpuVictims::Outcome::kNobody;
    if (nobody && !IsHeldUpByParents(state, job)) return false;
  }
  const Room room = FindRoom(state, job, Rights::kOwn, context_.placer);
  // A step of the search is far cheaper than one placement, in which the budget of a round is
  // counted.
  context_.steps_left -= 1 + room.steps / 100;
  if (!room.found) return false;
  // Room without victims was made for jobs that were tried before.
  if (room.victims.empty()) return !reserved && TryStart(context_, job);
  TakeRoom(context_, job, room);
  return true;
}

void PreemptionPass::StartOnOneGpu(JobEntry& job, const OneGpuVictims::Choice& choice) {
  SchedulerState& state = context_.state;
  StopVictim(context_, choice.victim, job, state.next_transaction);
  const GpuMask gpus = state.resources.ChooseGpus(choice.landing, job.shapes[0]);
  const TaskSlot slot = state.resources.Place(choice.landing, job.shapes[0], gpus, job.number);
  StartOn(context_, job, {{0, 0, slot, Stage::kAssumed}});
}

// A job that this round has begun may be a victim in the next round, and its queue may now hold
// more than its guarantee, so that older jobs of the queue may be victims. No other change would
// cause the next round to try preemption again, so the state notes it.
void PreemptionPass::NoteSpared(const JobEntry& job) {
  SchedulerState& state = context_.state;
  if (state.claims_spared || !MayClaim(state, job)) return;
  const std::vector<JobNumber>& begun = context_.begun;
  state.claims_spared = std::any_of(begun.begin(), begun.end(), [&](JobNumber number) {
    const JobEntry& other = state.at(number);
    if (!other.placed || number == job.number) return false;
    const bool borrows = other.queue != job.queue && state.queues.ExcessShare(other.queue) > 0;
    return borrows || MayTakeFrom(state, job, other);
  });
}

}  // namespace longhaul::scheduler::internal
