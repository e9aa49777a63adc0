// The members of Scheduler, whose definitions are cut by concept: scheduler.cc (entry, views),
// scheduler_invariants.cc and explain.cc.
#pragma once

#include "scheduler/internal/placer.h"
#include "scheduler/internal/scheduler_state.h"
#include "scheduler/scheduler.h"

namespace longhaul::scheduler {

class Scheduler::Impl {
 public:
  Impl(std::shared_ptr<const spec::Topology> topology, std::shared_ptr<const DomainTree> tree,
       share::QueueTree queues, const Policy& policy)
      : state(std::move(topology), std::move(tree), std::move(queues), policy),
        placer(policy.seed) {}
  // A copy draws the same random numbers only in that it begins with the same seed: rivals alone
  // draw any, and nobody asks them what-if questions.
  Impl(const Impl& other) : state(other.state), placer(other.placer) {}
  Impl& operator=(const Impl&) = delete;

  void Advance(Instant now);
  std::vector<Decision> Decide(Instant now, int64_t steps);

  internal::SchedulerState state;
  internal::Placer placer;
  bool unfinished = false;
};

}  // namespace longhaul::scheduler
