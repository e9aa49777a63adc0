// The replay of a failure trace with the real controller and agents in virtual time, and what its
// time went to. Every figure from here is called simulated.
#pragma once

#include <cstdint>
#include <vector>

#include "runtime/simulation/replay/baseline.h"
#include "runtime/simulation/replay/fault_trace.h"
#include "runtime/simulation/replay/published.h"
#include "runtime/simulation/simulation.h"

namespace longhaul::runtime::simulation {

struct ReplaySettings {
  uint32_t nodes = kPublishedNodes;  // of the gang
  uint32_t spares = kReplaySpares;
  Duration length = kPublishedLength;
  Duration operator_reaction = kOperator;
  double check_shows = kCheckShows;
  Physics physics = ReplayPhysics();
  ControllerOptions controller;
};

// The simulation of one seed with a trace.
SimulationOptions ReplaySimulation(const ReplaySettings& settings, std::vector<TracedFault> trace,
                                   uint64_t seed);

// Where the time of the run went, from the controller's ledger. Two corrections are from the
// simulation instead, because the ledger cannot know them: the time by which slow devices made
// steps longer is taken from the productive time, and so is the work that was repeated by hand. The
// time of the run after a failed job has ended is other time.
TimeParts PartsOf(const SimulationResult& result, Duration length);

}  // namespace longhaul::runtime::simulation
