// The decision that moves a running job, and what the state notes of the move.
#pragma once

#include <string>

#include "scheduler/internal/round/round_context.h"

namespace longhaul::scheduler::internal {

// Adds a kMove for `job` with its present tasks and gives it a transaction to be confirmed.
// Requires that SchedulerState::Uproot has removed the old tasks and Keep has added the new ones.
void RecordMove(RoundContext& context, JobEntry& job, std::string reason);

}  // namespace longhaul::scheduler::internal
