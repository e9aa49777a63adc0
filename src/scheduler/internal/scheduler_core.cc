#include "scheduler/internal/scheduler_core.h"

#include <algorithm>
#include <utility>

#include "base/hash.h"
#include "scheduler/internal/round/round.h"
#include "scheduler/internal/take_event.h"

namespace longhaul::scheduler::internal {

SchedulerCore::SchedulerCore(std::shared_ptr<const spec::Topology> topology,
                             std::shared_ptr<const DomainTree> tree, share::QueueTree queues,
                             const Policy& policy)
    : state(std::move(topology), std::move(tree), std::move(queues), policy), placer(policy.seed) {}

void SchedulerCore::Advance(Instant now) {
  if (state.began == Instant{}) state.began = now;
  state.now = std::max(state.now, now);
}

void SchedulerCore::Apply(const Event& event, Instant now) {
  Advance(now);
  state.input_hash = Hash64(ToString(event), state.input_hash);
  TakeEvent(state, event);
}

std::vector<Decision> SchedulerCore::Decide(Instant now, int64_t steps) {
  Advance(now);
  ++state.rounds;
  HealNodes(state);
  state.FormMix();
  Round round(state, placer, steps);
  std::vector<Decision> decisions = round.Run();
  unfinished = round.unfinished();
  return decisions;
}

}  // namespace longhaul::scheduler::internal
