// The part of the walk that tries overdue jobs before the fair order.
//
// A job is overdue once it has waited for Policy::longest_wait. Fair shares alone would let a large
// job of a queue with a small guarantee wait for as long as others use theirs.
#pragma once

#include <cstdint>
#include <set>
#include <utility>

#include "scheduler/internal/round/line_turns.h"
#include "scheduler/internal/round/reservations.h"
#include "scheduler/internal/round/round_context.h"

namespace longhaul::scheduler::internal {

class OverdueWalk {
 public:
  // Both outlive this.
  OverdueWalk(RoundContext& context, Reservations& reservations)
      : context_(context),
        reservations_(reservations),
        turns_(context.state, LineTurns::Purpose::kPlace) {}

  // Tries the first job of each queue that is overdue, the oldest first, and then the job that
  // follows in its queue. The oldest that do not fit get reservations, at most
  // Policy::overdue_reservations of them; the overdue jobs behind them in their queues may start
  // where no reservation suffers. No job is stopped for them, and quotas hold.
  void Run();

 private:
  // Adds the first job of the queue's lines that may be tried, if it is overdue.
  void AddFirstOf(share::QueueIndex queue);
  // Whether room is what the job lacks, and older overdue jobs leave it one of the reservations.
  bool MayReserve(const JobEntry& job) const;

  RoundContext& context_;
  Reservations& reservations_;
  LineTurns turns_;
  std::set<std::pair<Instant, JobNumber>> jobs_;  // to be tried, at most one a queue, by waiting
};

}  // namespace longhaul::scheduler::internal
