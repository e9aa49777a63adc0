// `longhaul simulate --trace --check-fixes DAY`: is every stated fix true?
#pragma once

#include <string>
#include <vector>

#include "scheduler/workload/simulation.h"

namespace longhaul::bin {

// Replays the trace; after the first round of each hour of `day` (UTC, "2017-10-12") every waiting
// job is explained, its fix is applied to a copy, and a round of the copy must start it. Prints
// what was found and how long explanations take; returns the exit code, which is an error when a
// stated fix was false or a waiting job had none.
int CheckFixes(const spec::ClusterDeclaration& cluster,
               const std::vector<scheduler::TraceJob>& jobs,
               const scheduler::workload::Contender& contender,
               scheduler::workload::SimulationOptions options, const std::string& day, bool json);

}  // namespace longhaul::bin
