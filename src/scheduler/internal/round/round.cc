#include "scheduler/internal/round/round.h"

#include <algorithm>
#include <utility>

#include "scheduler/internal/reservation_idle.h"
#include "scheduler/internal/round/defragmentation.h"
#include "scheduler/internal/round/elastic_growth.h"
#include "scheduler/internal/round/preemption.h"
#include "scheduler/internal/round/repairs.h"
#include "scheduler/internal/round/reservations.h"
#include "scheduler/internal/round/undo_unconfirmed_starts.h"
#include "scheduler/internal/round/waiting_walk.h"

namespace longhaul::scheduler::internal {

namespace {

// Rounds in a row that may follow at once although each has changed reservations alone.
constexpr uint32_t kMostPlanningRounds = 2;

}  // namespace

std::vector<Decision> Round::Run() {
  SchedulerState& state = context_.state;
  context_.decisions = std::move(state.rejections);
  state.rejections.clear();
  // The jobs that the last round began may be preempted by this one: preemption is tried again.
  if (std::exchange(state.claims_spared, false)) ++state.started_version;

  state.NoteOverdue();
  CountReservationIdle(state);

  Reservations reservations(context_);
  PreemptionPass preemption(context_);
  UndoUnconfirmedStarts(context_);
  Repairs(context_).Run();
  reservations.Refresh();
  const Seen before_walk = state.Versions();
  WaitingWalk(context_, reservations, preemption).Run();
  preemption.Run();
  reservations.Fill();
  Defragmentation(context_).Run();
  ElasticGrowth(context_).Run();
  reservations.WithdrawForUsers();
  const bool placed =
      std::any_of(context_.decisions.begin(), context_.decisions.end(), [](const Decision& each) {
        return each.kind != DecisionKind::kReserve && each.kind != DecisionKind::kReject;
      });
  const bool freed = !(before_walk == state.Versions());
  state.planning_rounds = freed && !placed ? state.planning_rounds + 1 : 0;
  // Two jobs that take each other's reservations must not keep rounds due forever.
  state.freed_after_walk = freed && state.planning_rounds <= kMostPlanningRounds;
  return std::move(context_.decisions);
}

}  // namespace longhaul::scheduler::internal
