// The order in which one pass tries the lines of waiting jobs.
//
// A line holds jobs of one queue that are alike: when the first one fails, the others would fail
// too. So a pass tries the first job of each line, and parks the line when it fails. A parked line
// is skipped until the state changes in a way that matters (SchedulerState::Versions). Placement
// and preemption depend on different changes and park lines separately.
//
// share/fair_order.h orders the queues. The lines of a queue are kept in a heap by their first
// jobs, so that a round over many lines stays cheap.
#pragma once

#include <cstdint>
#include <map>
#include <vector>

#include "scheduler/internal/scheduler_state.h"
#include "scheduler/share/fair_order.h"

namespace longhaul::scheduler::internal {

class LineTurns {
 public:
  enum class Purpose : uint8_t { kPlace, kPreempt };

  // `state` outlives this. Requires that no parked line becomes open again unless the versions of
  // the state change.
  LineTurns(SchedulerState& state, Purpose purpose) : state_(state), purpose_(purpose) {}

  // Returns the order of the queues, where a queue is open if one of its lines may be tried.
  share::FairOrder Order() const;

  // Returns the first job, in the queue's order, of the queue's lines that may be tried; kNoJob if
  // all its lines are empty or parked.
  JobNumber HeadOf(share::QueueIndex queue);

  // Skips the line until the state changes.
  void Park(uint32_t line);

 private:
  // A line's first job, with what orders it in its queue (SchedulerState::Before).
  struct Head {
    uint32_t line = 0;
    JobNumber first = kNoJob;
    uint64_t expedited = 0;
    int64_t priority = 0;
    Instant place{};
  };
  // The open lines of a queue as a heap by their first jobs, the next one on top.
  struct Heap {
    Seen seen;  // the versions for which it was filled
    std::vector<Head> heads;
  };

  Seen Versions() const;
  bool IsParked(const Line& line) const;
  Head FirstOf(uint32_t line) const;
  static bool After(const Head& a, const Head& b);
  void Fill(share::QueueIndex queue, Heap& heap) const;

  SchedulerState& state_;
  Purpose purpose_;
  std::map<share::QueueIndex, Heap> heaps_;
};

}  // namespace longhaul::scheduler::internal
