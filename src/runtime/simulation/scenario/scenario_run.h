// Runs a scenario in virtual time, with the times of the laboratory (tests/lab).
#pragma once

#include <cstdint>
#include <vector>

#include "runtime/simulation/simulation.h"

namespace longhaul::runtime::simulation {

// The options of a run. The job is a command as the laboratory's: agents
// copy snapshots to each other, and every worker ends with another one.
SimulationOptions OptionsOf(const spec::Scenario& scenario, uint64_t seed);

// For each fault of the scenario that happened, the indices of the faults that the controller
// recorded because of it: one belongs to the newest fault before it that struck the same worker or
// node, or else to the newest one.
std::vector<std::vector<int>> CausesOf(const spec::Scenario& scenario,
                                       const SimulationResult& result);

}  // namespace longhaul::runtime::simulation
