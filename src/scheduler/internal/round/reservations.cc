#include "scheduler/internal/round/reservations.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "scheduler/internal/planning.h"

namespace longhaul::scheduler::internal {

namespace {

void SortByTurn(const SchedulerState& state, std::vector<JobNumber>& jobs) {
  std::sort(jobs.begin(), jobs.end(),
            [&](JobNumber a, JobNumber b) { return state.Before(state.at(a), state.at(b)); });
}

}  // namespace

void Reservations::Publish(const Reservation& reservation) {
  const JobEntry& job = context_.state.at(reservation.job);
  Decision& decision = context_.AddDecision(DecisionKind::kReserve, 0, job);
  decision.tier = reservation.tier;
  decision.domain = reservation.domain;
  decision.from = reservation.start;
}

void Reservations::Withdraw(JobNumber job) {
  SchedulerState& state = context_.state;
  if (state.reservations.erase(job) > 0) ++state.reservation_version;
}

// Collected first and withdrawn afterwards, because Withdraw erases from the map that the loop
// reads.
void Reservations::WithdrawForUsers() {
  const SchedulerState& state = context_.state;
  std::vector<JobNumber> blocked;
  for (const auto& [holder, reservation] : state.reservations) {
    if (state.queues.CheckUser(state.MinimumOf(state.at(holder)))) blocked.push_back(holder);
  }
  for (const JobNumber holder : blocked) Withdraw(holder);
}

// Reservations of one user must fit the user's limits together: each is counted as if it ran.
bool Reservations::UserAdmits(const JobEntry& job) {
  SchedulerState& state = context_.state;
  if (!state.queues.LimitsUsers(job.queue)) return true;
  std::vector<share::Holding> reserved;
  for (const auto& [holder, reservation] : state.reservations) {
    const JobEntry& other = state.at(holder);
    if (other.request->owner == job.request->owner) reserved.push_back(state.MinimumOf(other));
  }
  for (const share::Holding& each : reserved) state.queues.Add(each);
  const bool admits = !state.queues.CheckUser(state.MinimumOf(job)).has_value();
  for (const share::Holding& each : reserved) state.queues.Remove(each);
  return admits;
}

void Reservations::Reserve(JobEntry& job) {
  SchedulerState& state = context_.state;
  if (state.policy.backfill == Backfill::kNone || state.reservations.contains(job.number)) return;
  if (!UserAdmits(job)) return;
  uint32_t held = 0;
  JobNumber last = kNoJob;
  for (const auto& [holder, reservation] : state.reservations) {
    if (reservation.queue != job.queue) continue;
    ++held;
    if (last == kNoJob || state.Before(state.at(last), state.at(holder))) last = holder;
  }
  // A queue has a limited number of reservations. A job that goes before the last holder takes its
  // place.
  if (held >= state.policy.reservations) {
    if (last == kNoJob || !state.Before(job, state.at(last))) return;
    Withdraw(last);
  }
  Line& line = state.lines[job.line];
  std::optional<Reservation> reservation = std::exchange(line.promise, std::nullopt);
  if (reservation && reservation->start > state.now &&
      state.now < line.promised_at + state.policy.promise_kept) {
    reservation->job = job.number;
  } else {
    --context_.steps_left;
    reservation = PlanReservation(state, job, context_.placer);
    line.promised_at = state.now;
  }
  if (!reservation) return;
  state.reservations[job.number] = *reservation;
  Publish(*reservation);
}

void Reservations::Fill() {
  SchedulerState& state = context_.state;
  if (state.policy.backfill == Backfill::kNone) return;
  const uint32_t most = state.policy.reservations;
  std::vector<uint32_t> held(state.queues.size());
  for (const auto& [holder, reservation] : state.reservations) {
    ++held[static_cast<size_t>(reservation.queue)];
  }
  for (size_t q = 0; q < held.size(); ++q) {
    if (held[q] >= most) continue;
    std::vector<JobNumber> next;
    for (const uint32_t index : state.lines_of_queue[q]) {
      uint32_t taken = 0;
      for (const auto& [place, number] : state.lines[index].jobs) {
        if (++taken > most) break;
        const Block::Kind kind = state.at(state.lines[index].jobs.begin()->second).block.kind;
        if (kind != Block::Kind::kRoom && kind != Block::Kind::kReservation) break;
        if (!state.reservations.contains(number)) next.push_back(number);
      }
    }
    SortByTurn(state, next);
    for (size_t i = 0; i < next.size() && held[q] < most && context_.steps_left > 0; ++i) {
      const size_t before = state.reservations.size();
      Reserve(state.at(next[i]));
      // Those that follow would get none either.
      if (state.reservations.size() == before) break;
      ++held[q];
    }
  }
}

void Reservations::Refresh() {
  SchedulerState& state = context_.state;
  const bool all = state.now - state.planned_at >= state.policy.replan_period;
  if (all) {
    state.planned_at = state.now;
    for (const JobNumber number : state.placed) state.NoteEnd(state.at(number));
  }
  std::vector<JobNumber> due;
  for (const auto& [holder, reservation] : state.reservations) {
    const bool overdue = reservation.start < state.now;
    if (all || overdue) due.push_back(holder);
  }
  SortByTurn(state, due);
  for (const JobNumber holder : due) {
    --context_.steps_left;
    // An earlier start replaces the old plan only if the gain is large enough. An overdue plan is
    // always replaced or withdrawn.
    const Reservation old = state.reservations.at(holder);
    state.reservations.erase(holder);
    const auto fresh = PlanReservation(state, state.at(holder), context_.placer);
    const bool overdue = old.start < state.now;
    if (!overdue && (!fresh || fresh->start + state.policy.reservation_gain > old.start)) {
      state.reservations[holder] = old;
      continue;
    }
    ++state.reservation_version;
    if (!fresh) continue;
    state.reservations[holder] = *fresh;
    Publish(*fresh);
  }
}

}  // namespace longhaul::scheduler::internal
