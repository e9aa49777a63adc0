#include "scheduler/internal/round/round.h"

#include <utility>

#include "scheduler/internal/round/defragmentation.h"
#include "scheduler/internal/round/elastic_growth.h"
#include "scheduler/internal/round/preemption.h"
#include "scheduler/internal/round/repairs.h"
#include "scheduler/internal/round/reservations.h"
#include "scheduler/internal/round/undo_unconfirmed_starts.h"
#include "scheduler/internal/round/waiting_walk.h"

namespace longhaul::scheduler::internal {

std::vector<Decision> Round::Run() {
  SchedulerState& state = context_.state;
  context_.decisions = std::move(state.rejections);
  state.rejections.clear();
  // The jobs that the last round began may be preempted by this one: preemption is tried again.
  if (std::exchange(state.claims_spared, false)) ++state.started_version;

  Reservations reservations(context_);
  Preemption preemption(context_);
  UndoUnconfirmedStarts(context_);
  Repairs(context_).Run();
  reservations.Refresh();
  WaitingWalk(context_, reservations, preemption).Run();
  preemption.Run();
  reservations.Fill();
  Defragmentation(context_).Run();
  ElasticGrowth(context_).Run();
  return std::move(context_.decisions);
}

}  // namespace longhaul::scheduler::internal
