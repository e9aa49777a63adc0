// The first blocked gangs of each queue are promised a time and a domain.
#include <algorithm>
#include <utility>

#include "scheduler/internal/planning.h"
#include "scheduler/internal/round.h"

namespace longhaul::scheduler::internal {

void Round::Publish(const Reservation& reservation) {
  Decision& decision = Say(DecisionKind::kReserve, 0, books_.at(reservation.job));
  decision.tier = reservation.tier;
  decision.domain = reservation.domain;
  decision.from = reservation.start;
}

void Round::Unreserve(JobNumber job) {
  if (books_.reservations.erase(job) > 0) ++books_.reservation_version;
}

// A queue's reservations are few, and go to those of its jobs that go first.
void Round::Reserve(Job& job) {
  if (books_.policy.backfill == Backfill::kNone || books_.reservations.contains(job.number)) return;
  uint32_t held = 0;
  JobNumber last = kNoJob;
  for (const auto& [holder, reservation] : books_.reservations) {
    if (reservation.queue != job.queue) continue;
    ++held;
    if (last == kNoJob || books_.Before(books_.at(last), books_.at(holder))) last = holder;
  }
  if (held >= books_.policy.reservations) {
    if (last == kNoJob || !books_.Before(job, books_.at(last))) return;
    Unreserve(last);
  }
  Line& line = books_.lines[job.line];
  std::optional<Reservation> reservation = std::exchange(line.promise, std::nullopt);
  if (reservation && reservation->start > books_.now &&
      books_.now < line.promised_at + books_.policy.promise_kept) {
    reservation->job = job.number;
  } else {
    --steps_;
    reservation = PlanReservation(books_, job, placer_);
    line.promised_at = books_.now;
  }
  if (!reservation) return;
  books_.reservations[job.number] = *reservation;
  Publish(*reservation);
}

// Once the walk has reserved for the heads, further jobs of the same lines follow.
void Round::FillReservations() {
  if (books_.policy.backfill == Backfill::kNone) return;
  std::vector<uint32_t> held(books_.queues.size());
  for (const auto& [holder, reservation] : books_.reservations) {
    ++held[static_cast<size_t>(reservation.queue)];
  }
  for (size_t q = 0; q < held.size(); ++q) {
    if (held[q] >= books_.policy.reservations) continue;
    std::vector<JobNumber> next;
    for (const uint32_t index : books_.lines_of_queue[q]) {
      uint32_t taken = 0;
      for (const auto& [place, number] : books_.lines[index].jobs) {
        if (++taken > books_.policy.reservations) break;
        const Block::Kind kind = books_.at(books_.lines[index].jobs.begin()->second).block.kind;
        if (kind != Block::Kind::kRoom && kind != Block::Kind::kReservation) break;
        if (!books_.reservations.contains(number)) next.push_back(number);
      }
    }
    std::sort(next.begin(), next.end(),
              [&](JobNumber a, JobNumber b) { return books_.Before(books_.at(a), books_.at(b)); });
    for (size_t i = 0; i < next.size() && held[q] < books_.policy.reservations && steps_ > 0; ++i) {
      const size_t before = books_.reservations.size();
      Reserve(books_.at(next[i]));
      if (books_.reservations.size() == before) break;  // what follows is no easier
      ++held[q];
    }
  }
}

// Plans that have not come true are made anew; the others from time to time, if that gains enough.
void Round::RefreshReservations() {
  const bool all = books_.now - books_.planned_at >= books_.policy.replan_period;
  if (all) {
    books_.planned_at = books_.now;
    for (const JobNumber number : books_.placed) books_.NoteEnd(books_.at(number));
  }
  std::vector<JobNumber> due;
  for (const auto& [holder, reservation] : books_.reservations) {
    if (all || reservation.start < books_.now) due.push_back(holder);
  }
  std::sort(due.begin(), due.end(),
            [&](JobNumber a, JobNumber b) { return books_.Before(books_.at(a), books_.at(b)); });
  for (const JobNumber holder : due) {
    --steps_;
    const Reservation old = books_.reservations.at(holder);
    books_.reservations.erase(holder);
    const auto fresh = PlanReservation(books_, books_.at(holder), placer_);
    const bool overdue = old.start < books_.now;
    if (!overdue && (!fresh || fresh->start + books_.policy.reservation_gain > old.start)) {
      books_.reservations[holder] = old;
      continue;
    }
    ++books_.reservation_version;
    if (!fresh) continue;
    books_.reservations[holder] = *fresh;
    Publish(*fresh);
  }
}

}  // namespace longhaul::scheduler::internal
