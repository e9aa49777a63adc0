// The times of the laboratory (tests/lab): hosts as network namespaces on one machine of 2 virtual
// cores (AMD EPYC), with the workers of bench/recovery/fault_worker.py.
//
// Measured by the stages of the controller's faults in runs of tests/lab/scenario.py: 8 of
// worker-killed.yaml (load average 1.0 to 2.1) and 5 of agent-killed.yaml (1.9 to 2.3). They are
// medians, fitted to these two scenarios; what they predict of the others is compared with what is
// measured in docs/scenarios.md.
#pragma once

#include "runtime/simulation/physics.h"

namespace longhaul::runtime::simulation {

// From the start of the process to the new agent's first event, without a join token.
inline constexpr Duration kAgentStart = std::chrono::milliseconds(30);
// From the start of the process until agents can connect: bench/README.md, kills of the controller.
inline constexpr Duration kControllerStart = std::chrono::milliseconds(100);
// The start of a worker by an agent that has just started and has no fork server: Python loads
// NumPy. Others fork.
inline constexpr Duration kColdFork = std::chrono::milliseconds(160);
// Of a step, besides its computation: the exchange of gradients and the reports.
inline constexpr Duration kExchange = std::chrono::milliseconds(2);

inline Physics LaboratoryPhysics(Duration computation) {
  Physics physics;
  physics.step = computation + kExchange;
  physics.fork = std::chrono::milliseconds(30);  // the last of 4 after 39 ms
  physics.start_up = std::chrono::milliseconds(40);
  physics.group_init = std::chrono::milliseconds(10);  // with start_up 60 ms for the last of 4
  physics.restore_memory = std::chrono::microseconds(1'500);
  physics.message = std::chrono::microseconds(500);  // a worker's end until the controller's fault
  // Four heartbeats of 250 ms, and half of the 250 ms between two looks of the controller
  // (service/controller/agents/agent_gateway.h).
  physics.silence = std::chrono::milliseconds(1'125);
  // Assumed: of a state of 512 bytes. None of these delays a step of the scenarios noticeably.
  physics.snapshot_block = std::chrono::milliseconds(1);
  physics.copy = std::chrono::milliseconds(10);
  physics.restore_disk = std::chrono::milliseconds(10);
  physics.persist = std::chrono::milliseconds(50);
  physics.manifest = std::chrono::milliseconds(10);
  return physics;
}

}  // namespace longhaul::runtime::simulation
