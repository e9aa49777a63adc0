// What `longhaul simulate --trace` prints and draws, from the results of the policies.
#pragma once

#include <string>
#include <vector>

#include "scheduler/workload/simulation.h"

namespace longhaul::bin {

// For people: a table of the policies, then one of waits by size. Ends with a line end.
std::string TraceTable(const std::vector<scheduler::workload::SimulationResult>& results);

// The same and more, a row a policy, a head with units.
std::string TraceCsv(const std::vector<scheduler::workload::SimulationResult>& results);

// One object with "simulated": true and an array of policies.
std::string TraceJson(const std::vector<scheduler::workload::SimulationResult>& results);

// Use and waiting jobs over time, a line a policy, above bars of the 95th percentile of waits by
// size. Says "simulated".
std::string TraceSvg(const std::vector<scheduler::workload::SimulationResult>& results);

// The drawing and the table in one page without anything from outside; `head` says what was
// replayed.
std::string TraceHtml(const std::vector<scheduler::workload::SimulationResult>& results,
                      const std::string& head);

}  // namespace longhaul::bin
