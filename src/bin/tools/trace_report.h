// The output of `longhaul simulate --trace`: text and drawings of the results of the policies.
#pragma once

#include <string>
#include <vector>

#include "scheduler/workload/simulation.h"

namespace longhaul::bin {

// For people: a table of the policies, then one of waits by size. Ends with a line end.
std::string TraceTable(const std::vector<scheduler::workload::SimulationResult>& results);

// The same with more columns: one row for each policy, and a header with units.
std::string TraceCsv(const std::vector<scheduler::workload::SimulationResult>& results);

// One object with "simulated": true and an array of policies.
std::string TraceJson(const std::vector<scheduler::workload::SimulationResult>& results);

// The use of GPUs and the number of waiting jobs over time, one line for each policy, above bars of
// the 95th percentile of waits by size. Contains the word "simulated".
std::string TraceSvg(const std::vector<scheduler::workload::SimulationResult>& results);

// The drawing and the table in one self-contained page; `head` states what was
// replayed.
std::string TraceHtml(const std::vector<scheduler::workload::SimulationResult>& results,
                      const std::string& head);

}  // namespace longhaul::bin
