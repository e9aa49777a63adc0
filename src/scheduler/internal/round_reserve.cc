// The first blocked gangs of each queue are promised a time and a domain.
#include <algorithm>
#include <utility>

#include "scheduler/internal/planning.h"
#include "scheduler/internal/round.h"

namespace longhaul::scheduler::internal {

void Round::Publish(const Reservation& reservation) {
  Decision& decision = Say(DecisionKind::kReserve, 0, state_.at(reservation.job));
  decision.tier = reservation.tier;
  decision.domain = reservation.domain;
  decision.from = reservation.start;
}

void Round::Unreserve(JobNumber job) {
  if (state_.reservations.erase(job) > 0) ++state_.reservation_version;
}

// A queue's reservations are few, and go to those of its jobs that go first.
void Round::Reserve(JobEntry& job) {
  if (state_.policy.backfill == Backfill::kNone || state_.reservations.contains(job.number)) return;
  uint32_t held = 0;
  JobNumber last = kNoJob;
  for (const auto& [holder, reservation] : state_.reservations) {
    if (reservation.queue != job.queue) continue;
    ++held;
    if (last == kNoJob || state_.Before(state_.at(last), state_.at(holder))) last = holder;
  }
  if (held >= state_.policy.reservations) {
    if (last == kNoJob || !state_.Before(job, state_.at(last))) return;
    Unreserve(last);
  }
  Line& line = state_.lines[job.line];
  std::optional<Reservation> reservation = std::exchange(line.promise, std::nullopt);
  if (reservation && reservation->start > state_.now &&
      state_.now < line.promised_at + state_.policy.promise_kept) {
    reservation->job = job.number;
  } else {
    --steps_;
    reservation = PlanReservation(state_, job, placer_);
    line.promised_at = state_.now;
  }
  if (!reservation) return;
  state_.reservations[job.number] = *reservation;
  Publish(*reservation);
}

// Once the walk has reserved for the heads, further jobs of the same lines follow.
void Round::FillReservations() {
  if (state_.policy.backfill == Backfill::kNone) return;
  std::vector<uint32_t> held(state_.queues.size());
  for (const auto& [holder, reservation] : state_.reservations) {
    ++held[static_cast<size_t>(reservation.queue)];
  }
  for (size_t q = 0; q < held.size(); ++q) {
    if (held[q] >= state_.policy.reservations) continue;
    std::vector<JobNumber> next;
    for (const uint32_t index : state_.lines_of_queue[q]) {
      uint32_t taken = 0;
      for (const auto& [place, number] : state_.lines[index].jobs) {
        if (++taken > state_.policy.reservations) break;
        const Block::Kind kind = state_.at(state_.lines[index].jobs.begin()->second).block.kind;
        if (kind != Block::Kind::kRoom && kind != Block::Kind::kReservation) break;
        if (!state_.reservations.contains(number)) next.push_back(number);
      }
    }
    std::sort(next.begin(), next.end(),
              [&](JobNumber a, JobNumber b) { return state_.Before(state_.at(a), state_.at(b)); });
    for (size_t i = 0; i < next.size() && held[q] < state_.policy.reservations && steps_ > 0; ++i) {
      const size_t before = state_.reservations.size();
      Reserve(state_.at(next[i]));
      if (state_.reservations.size() == before) break;  // what follows is no easier
      ++held[q];
    }
  }
}

// Plans that have not come true are made anew; the others from time to time, if that gains enough.
void Round::RefreshReservations() {
  const bool all = state_.now - state_.planned_at >= state_.policy.replan_period;
  if (all) {
    state_.planned_at = state_.now;
    for (const JobNumber number : state_.placed) state_.NoteEnd(state_.at(number));
  }
  std::vector<JobNumber> due;
  for (const auto& [holder, reservation] : state_.reservations) {
    if (all || reservation.start < state_.now) due.push_back(holder);
  }
  std::sort(due.begin(), due.end(),
            [&](JobNumber a, JobNumber b) { return state_.Before(state_.at(a), state_.at(b)); });
  for (const JobNumber holder : due) {
    --steps_;
    const Reservation old = state_.reservations.at(holder);
    state_.reservations.erase(holder);
    const auto fresh = PlanReservation(state_, state_.at(holder), placer_);
    const bool overdue = old.start < state_.now;
    if (!overdue && (!fresh || fresh->start + state_.policy.reservation_gain > old.start)) {
      state_.reservations[holder] = old;
      continue;
    }
    ++state_.reservation_version;
    if (!fresh) continue;
    state_.reservations[holder] = *fresh;
    Publish(*fresh);
  }
}

}  // namespace longhaul::scheduler::internal
