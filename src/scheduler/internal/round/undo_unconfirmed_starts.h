// The pass that takes back starts which the engine did not confirm in time.
#pragma once

#include "scheduler/internal/round/round_context.h"

namespace longhaul::scheduler::internal {

// Adds a kUndo for each job whose tasks were not all bound by their deadline, and returns the job
// to its queue.
void UndoUnconfirmedStarts(RoundContext& context);

}  // namespace longhaul::scheduler::internal
