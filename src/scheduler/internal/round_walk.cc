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
  if (!preempting) return line.parked && line.parked_at == books_.Versions();
  return line.preempt_parked && line.preempt_parked_at == books_.PreemptVersions();
}

share::FairOrder Round::OrderNow(bool preempting) const {
  std::vector<char> open(books_.queues.size());
  for (size_t q = 0; q < open.size(); ++q) {
    for (const uint32_t line : books_.lines_of_queue[q]) {
      if (!Parked(books_.lines[line], preempting)) open[q] = 1;
    }
  }
  return share::FairOrder(books_.queues, open, [&books = books_](share::QueueIndex queue) {
    return books.decayed.At(static_cast<size_t>(queue), books.now);
  });
}

void Round::Fill(share::QueueIndex queue, bool preempting, Turns& turns) const {
  turns.preempting = preempting;
  turns.seen = preempting ? books_.PreemptVersions() : books_.Versions();
  turns.heads.clear();
  for (const uint32_t index : books_.lines_of_queue[static_cast<size_t>(queue)]) {
    const Line& line = books_.lines[index];
    if (!Parked(line, preempting)) turns.heads.push_back({index, line.jobs.begin()->second});
  }
}

// The first job of the queue's lines that may be tried, in the queue's order.
JobNumber Round::HeadOf(share::QueueIndex queue, bool preempting) {
  const auto& open = books_.lines_of_queue[static_cast<size_t>(queue)];
  if (open.size() <= 1) {
    if (open.empty() || Parked(books_.lines[*open.begin()], preempting)) return kNoJob;
    return books_.lines[*open.begin()].jobs.begin()->second;
  }
  const auto after = [this](const Turns::Head& a, const Turns::Head& b) {
    return books_.Before(books_.at(b.first), books_.at(a.first));
  };
  const auto [found, fresh] = turns_.try_emplace(queue);
  Turns& turns = found->second;
  const Seen now = preempting ? books_.PreemptVersions() : books_.Versions();
  if (fresh || turns.preempting != preempting || !(turns.seen == now)) {
    Fill(queue, preempting, turns);
    std::make_heap(turns.heads.begin(), turns.heads.end(), after);
  }
  while (!turns.heads.empty()) {
    const Turns::Head top = turns.heads.front();
    const Line& line = books_.lines[top.line];
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
  std::vector<JobNumber> expedited(books_.expedited.begin(), books_.expedited.end());
  std::sort(expedited.begin(), expedited.end(), [&](JobNumber a, JobNumber b) {
    return books_.at(a).expedited > books_.at(b).expedited;
  });
  for (const JobNumber number : expedited) {
    if (!TryStart(books_.at(number))) TryMakeRoom(books_.at(number));
  }
  share::FairOrder order = OrderNow(false);
  for (share::QueueIndex queue = order.Next(); queue != share::kNoQueue && steps_ > 0;
       queue = order.Next()) {
    const JobNumber head = HeadOf(queue, false);
    if (head == kNoJob) {
      order.Close(queue);
      continue;
    }
    Job& job = books_.at(head);
    Line& line = books_.lines[job.line];
    if (TryStart(job)) {
      order.Refresh(queue);
      continue;
    }
    if (books_.policy.backfill == Backfill::kNone) {
      order.Close(queue);
      continue;
    }
    if (job.block.kind == Block::Kind::kRoom || job.block.kind == Block::Kind::kReservation) {
      Reserve(job);
    }
    line.parked = true;
    line.parked_at = books_.Versions();
  }
}

// The count of an elastic job's only group that room and quota allow; 0 when not even the minimum.
int32_t Round::CountFor(Job& job, Admit admit) {
  const GroupRequest& group = job.request->groups[0];
  const int32_t room = placer_.MostTasks(books_, job, 0, {}, admit);
  if (room < group.minimum) return 0;
  int32_t count = group.minimum + (room - group.minimum) / group.step * group.step;
  while (count > group.minimum &&
         books_.queues.Check(job.queue, AmountsOf(group.shape, count)).has_value()) {
    count -= group.step;
  }
  return count;
}

bool Round::TryStart(Job& job) {
  --steps_;
  job.block = {};
  if (job.leaving) {
    job.block.kind = Block::Kind::kLeaving;
    return false;
  }
  if (const auto quota = books_.queues.Check(job.queue, MinimumAmounts(*job.request))) {
    // More than the whole cluster has left is a matter of room, whoever uses it.
    const size_t r = quota->resource;
    const bool full = quota->kind == share::QuotaBlock::Kind::kLending &&
                      books_.queues.usage(share::kRootQueue)[r] + quota->asked > quota->bound;
    job.block.kind = full ? Block::Kind::kRoom : Block::Kind::kQuota;
    job.block.quota = *quota;
    job.block.group = LargestGroup(*job.request);
    return false;
  }
  const Admit admit = AdmitOf(books_, job);
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
    if (!books_.queues.Check(job.queue, all) && StartWith(job, desired, admit)) return true;
  }
  return StartWith(job, minimum, admit);
}

bool Round::StartWith(Job& job, std::vector<int32_t> counts, Admit admit) {
  Bounds bounds;
  for (int detour = 0;; ++detour) {
    const Savepoint before = books_.state.Save();
    std::vector<HeldTask> tasks;
    int32_t failed = 0;
    if (!placer_.Place(books_, job, counts, bounds, admit, tasks, &failed)) {
      if (detour == 0) {
        job.block.kind = Block::Kind::kRoom;
        job.block.group = failed;
      }
      return false;
    }
    const JobNumber holder = ForbiddenBy(books_, job, tasks);
    if (holder == kNoJob) {
      Start(job, tasks);
      return true;
    }
    books_.state.RollBack(before);
    job.block.kind = Block::Kind::kReservation;
    job.block.by = holder;
    const Reservation& reservation = books_.reservations.at(holder);
    if (reservation.tier == kClusterTier || detour == kMostDetours) return false;
    bounds.closed_hosts.emplace_back(
        reservation.first_host,
        reservation.first_host + static_cast<int32_t>(reservation.cards_at_start.size()));
  }
}

void Round::Start(Job& job, std::vector<HeldTask> tasks) {
  LayRanks(books_, job, tasks, true);
  ChargeReservations(books_, job, tasks);
  const std::vector<JobId> after = Leaving(tasks, job);
  // Whoever has to leave first needs time for it.
  const int patience = after.empty() ? 1 : 4;
  books_.Begin(job, tasks, books_.now + books_.policy.bind_deadline * patience);
  begun_.push_back(job.number);
  Decision& start = Say(DecisionKind::kStart, job.transaction, job);
  start.after = after;
  start.tasks = books_.PlacementsOf(job);
  start.ranks = CardsOfRanks(books_, job);
}

}  // namespace longhaul::scheduler::internal
