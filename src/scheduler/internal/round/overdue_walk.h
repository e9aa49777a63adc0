// The part of the walk that tries overdue jobs before the fair order.
//
// A job is overdue once it has waited for Policy::longest_wait. Fair shares alone would let a large
// job of a queue with a small guarantee wait for as long as others use theirs.
#pragma once

#include <set>
#include <utility>

#include "scheduler/internal/round/reservations.h"
#include "scheduler/internal/round/round_context.h"

namespace longhaul::scheduler::internal {

class OverdueWalk {
 public:
  // Both outlive this.
  OverdueWalk(RoundContext& context, Reservations& reservations)
      : context_(context), reservations_(reservations) {}

  // Tries the first job of each queue that is overdue, the oldest first, and then the job that
  // follows in its queue. Plans reservations for at most Policy::overdue_reservations of those that
  // do not fit. No job is stopped for them, and quotas hold.
  void Run();

 private:
  // Adds the queue's first job if it is overdue.
  void AddFirstOf(share::QueueIndex queue);
  // Whether the job was tried after the last change that matters, and failed.
  bool IsParked(const JobEntry& job) const;
  // Plans a reservation where room is what the job lacks, and skips its line until a change.
  void HandleFailure(JobEntry& job);

  RoundContext& context_;
  Reservations& reservations_;
  std::set<std::pair<Instant, JobNumber>> jobs_;  // to be tried, by submission
  uint32_t reserved_ = 0;
};

}  // namespace longhaul::scheduler::internal
