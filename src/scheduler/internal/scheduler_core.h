// The whole scheduler as a value: the state, the placer, and the functions that change them.
//
// The class Scheduler holds one of these. A copy is an independent scheduler, on which explanations
// and checks try changes out.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "scheduler/decision.h"
#include "scheduler/event.h"
#include "scheduler/internal/placer.h"
#include "scheduler/internal/scheduler_state.h"

namespace longhaul::scheduler::internal {

struct SchedulerCore {
  SchedulerCore(std::shared_ptr<const spec::Topology> topology,
                std::shared_ptr<const DomainTree> tree, share::QueueTree queues,
                const Policy& policy);
  // The random numbers of a copy begin anew with the same seed: only rival placement rules use any,
  // and explanations do not cover those. A copy is not unfinished until its own first round.
  SchedulerCore(const SchedulerCore& other) : state(other.state), placer(other.placer) {}
  SchedulerCore& operator=(const SchedulerCore&) = delete;

  // Sets the time. A time before the present one changes nothing.
  void Advance(Instant now);

  // Applies one event at `now`. An event that makes no sense changes nothing.
  void Apply(const Event& event, Instant now);

  // Runs one round at `now` with so many placements and search steps.
  std::vector<Decision> Decide(Instant now, int64_t steps);

  SchedulerState state;
  Placer placer;
  bool unfinished = false;  // the last round used all its steps
};

}  // namespace longhaul::scheduler::internal
