// `longhaul simulate --trace --check-fixes DAY`: checks that every stated fix is true.
#pragma once

#include <string>
#include <vector>

#include "scheduler/workload/simulation.h"

namespace longhaul::bin {

// Replays the trace. After the first round of each hour of `day` (UTC, "2017-10-12") every waiting
// job is explained and its fix is applied to a copy; a round of the copy must start the job. Prints
// the findings and the time that explanations take; returns the exit code, which is an error when a
// stated fix was false or a waiting job had none.
int CheckFixes(const spec::ClusterDeclaration& cluster,
               const std::vector<scheduler::TraceJob>& jobs,
               const scheduler::workload::Contender& contender,
               scheduler::workload::SimulationOptions options, const std::string& day, bool json);

}  // namespace longhaul::bin
