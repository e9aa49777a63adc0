// Waiting jobs, each in its turn: place it, or leave it until something changes.
#include <algorithm>

#include "base/check.h"
#include "scheduler/internal/planning.h"
#include "scheduler/internal/rank_places.h"
#include "scheduler/internal/round.h"

namespace longhaul::scheduler::internal {

namespace {

// Domains of reservations that one attempt steers around before it gives up.
constexpr int kMostDetours = 3;

}  // namespace

bool Round::Parked(const Line& line, bool preempting) const {
  if (line.jobs.empty()) return true;
  if (!preempting) return line.parked && line.parked_at == state_.Versions();
  return line.preempt_parked && line.preempt_parked_at == state_.PreemptVersions();
}

share::FairOrder Round::OrderNow(bool preempting) const {
  std::vector<char> open(state_.queues.size());
  for (size_t q = 0; q < open.size(); ++q) {
    for (const uint32_t line : state_.lines_of_queue[q]) {
      if (!Parked(state_.lines[line], preempting)) open[q] = 1;
    }
  }
  return share::FairOrder(state_.queues, open, [&state = state_](share::QueueIndex queue) {
    return state.decayed.At(static_cast<size_t>(queue), state.now);
  });
}

void Round::Fill(share::QueueIndex queue, bool preempting, Turns& turns) const {
  turns.preempting = preempting;
  turns.seen = preempting ? state_.PreemptVersions() : state_.Versions();
  turns.heads.clear();
  for (const uint32_t index : state_.lines_of_queue[static_cast<size_t>(queue)]) {
    const Line& line = state_.lines[index];
    if (!Parked(line, preempting)) turns.heads.push_back({index, line.jobs.begin()->second});
  }
}

// The first job of the queue's lines that may be tried, in the queue's order.
JobNumber Round::HeadOf(share::QueueIndex queue, bool preempting) {
  const auto& open = state_.lines_of_queue[static_cast<size_t>(queue)];
  if (open.size() <= 1) {
    if (open.empty() || Parked(state_.lines[*open.begin()], preempting)) return kNoJob;
    return state_.lines[*open.begin()].jobs.begin()->second;
  }
  const auto after = [this](const Turns::Head& a, const Turns::Head& b) {
    return state_.Before(state_.at(b.first), state_.at(a.first));
  };
  const auto [found, fresh] = turns_.try_emplace(queue);
  Turns& turns = found->second;
  const Seen now = preempting ? state_.PreemptVersions() : state_.Versions();
  if (fresh || turns.preempting != preempting || !(turns.seen == now)) {
    Fill(queue, preempting, turns);
    std::make_heap(turns.heads.begin(), turns.heads.end(), after);
  }
  while (!turns.heads.empty()) {
    const Turns::Head top = turns.heads.front();
    const Line& line = state_.lines[top.line];
    const bool parked = Parked(line, preempting);
    if (!parked && line.jobs.begin()->second == top.first) return top.first;
    std::pop_heap(turns.heads.begin(), turns.heads.end(), after);
    turns.heads.pop_back();
    if (parked) continue;
    turns.heads.push_back({top.line, line.jobs.begin()->second});
    std::push_heap(turns.heads.begin(), turns.heads.end(), after);
  }
  return kNoJob;
}

void Round::Walk() {
  std::vector<JobNumber> expedited(state_.expedited.begin(), state_.expedited.end());
  std::sort(expedited.begin(), expedited.end(), [&](JobNumber a, JobNumber b) {
    return state_.at(a).expedited > state_.at(b).expedited;
  });
  for (const JobNumber number : expedited) {
    if (!TryStart(state_.at(number))) TryMakeRoom(state_.at(number));
  }
  share::FairOrder order = OrderNow(false);
  for (share::QueueIndex queue = order.Next(); queue != share::kNoQueue && steps_ > 0;
       queue = order.Next()) {
    const JobNumber head = HeadOf(queue, false);
    if (head == kNoJob) {
      order.Close(queue);
      continue;
    }
    JobEntry& job = state_.at(head);
    Line& line = state_.lines[job.line];
    if (TryStart(job)) {
      order.Refresh(queue);
      continue;
    }
    if (state_.policy.backfill == Backfill::kNone) {
      order.Close(queue);
      continue;
    }
    if (job.block.kind == Block::Kind::kRoom || job.block.kind == Block::Kind::kReservation) {
      Reserve(job);
    }
    line.parked = true;
    line.parked_at = state_.Versions();
  }
}

// The count of an elastic job's only group that room and quota allow; 0 when not even the minimum.
int32_t Round::CountFor(JobEntry& job, Admit admit) {
  const GroupRequest& group = job.request->groups[0];
  const int32_t room = placer_.MostTasks(state_, job, 0, {}, admit);
  if (room < group.minimum) return 0;
  int32_t count = group.minimum + (room - group.minimum) / group.step * group.step;
  while (count > group.minimum &&
         state_.queues.Check(job.queue, AmountsOf(group.shape, count)).has_value()) {
    count -= group.step;
  }
  return count;
}

bool Round::TryStart(JobEntry& job) {
  --steps_;
  job.block = {};
  if (job.leaving) {
    job.block.kind = Block::Kind::kLeaving;
    return false;
  }
  if (const auto quota = state_.queues.Check(job.queue, MinimumAmounts(*job.request))) {
    // More than the whole cluster has left is a matter of room, whoever uses it.
    const size_t r = quota->resource;
    const bool full = quota->kind == share::QuotaBlock::Kind::kLending &&
                      state_.queues.usage(share::kRootQueue)[r] + quota->asked > quota->bound;
    job.block.kind = full ? Block::Kind::kRoom : Block::Kind::kQuota;
    job.block.quota = *quota;
    job.block.group = LargestGroup(*job.request);
    return false;
  }
  const Admit admit = AdmitOf(state_, job);
  std::vector<int32_t> minimum;
  std::vector<int32_t> desired;
  for (const GroupRequest& group : job.request->groups) {
    minimum.push_back(group.minimum);
    desired.push_back(group.desired);
  }
  if (minimum == desired) return StartWith(job, minimum, admit);
  if (desired.size() == 1) {
    const int32_t count = CountFor(job, admit);
    if (count > minimum[0] && StartWith(job, {count}, admit)) return true;
  } else {
    spec::SharedAmounts all;
    for (const GroupRequest& group : job.request->groups) {
      all += AmountsOf(group.shape, group.desired);
    }
    if (!state_.queues.Check(job.queue, all) && StartWith(job, desired, admit)) return true;
  }
  return StartWith(job, minimum, admit);
}

bool Round::StartWith(JobEntry& job, std::vector<int32_t> counts, Admit admit) {
  Bounds bounds;
  for (int detour = 0;; ++detour) {
    const Savepoint before = state_.resources.Save();
    std::vector<HeldTask> tasks;
    int32_t failed = 0;
    if (!placer_.Place(state_, job, counts, bounds, admit, tasks, &failed)) {
      if (detour == 0) {
        job.block.kind = Block::Kind::kRoom;
        job.block.group = failed;
      }
      return false;
    }
    const JobNumber holder = ForbiddenBy(state_, job, tasks);
    if (holder == kNoJob) {
      Start(job, tasks);
      return true;
    }
    state_.resources.RollBack(before);
    job.block.kind = Block::Kind::kReservation;
    job.block.by = holder;
    const Reservation& reservation = state_.reservations.at(holder);
    if (reservation.tier == kClusterTier || detour == kMostDetours) return false;
    bounds.closed_hosts.emplace_back(
        reservation.first_host,
        reservation.first_host + static_cast<int32_t>(reservation.gpus_at_start.size()));
  }
}

void Round::Start(JobEntry& job, std::vector<HeldTask> tasks) {
  LayRanks(state_, job, tasks, true);
  ChargeReservations(state_, job, tasks);
  const std::vector<JobId> after = Leaving(tasks, job);
  // Whoever has to leave first needs time for it.
  const int patience = after.empty() ? 1 : 4;
  state_.Begin(job, tasks, state_.now + state_.policy.bind_deadline * patience);
  begun_.push_back(job.number);
  Decision& start = Say(DecisionKind::kStart, job.transaction, job);
  start.after = after;
  start.tasks = state_.PlacementsOf(job);
  start.ranks = GpusOfRanks(state_, job);
}

}  // namespace longhaul::scheduler::internal
