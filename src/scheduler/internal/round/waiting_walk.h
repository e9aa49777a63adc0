// The pass that tries the waiting jobs in their order: it starts those that fit, and plans
// reservations for those that do not.
#pragma once

#include "scheduler/internal/round/preemption.h"
#include "scheduler/internal/round/reservations.h"
#include "scheduler/internal/round/round_context.h"

namespace longhaul::scheduler::internal {

class WaitingWalk {
 public:
  // All three outlive this.
  WaitingWalk(RoundContext& context, Reservations& reservations, PreemptionPass& preemption)
      : context_(context), reservations_(reservations), preemption_(preemption) {}

  // Tries the jobs that an operator has put first, the last expedited one before the others, and
  // stops other jobs for them. Then tries the first job of each line in the fair order.
  void Run();

 private:
  void StartExpedited();
  void StartInFairOrder();

  RoundContext& context_;
  Reservations& reservations_;
  PreemptionPass& preemption_;
};

}  // namespace longhaul::scheduler::internal
