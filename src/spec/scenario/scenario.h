// A scenario of faults: a job, and what fails when. The simulator and the laboratory of network
// namespaces (tests/lab) run the same files, so that what they observe can be compared.
//
//   name: host-lost-with-a-spare
//   nodes: 2                     # of the job
//   spares: 1                    # further ones
//   processes_per_node: 2
//   steps: 200
//   step: 50ms
//   snapshot_every: 5            # steps
//   faults:
//     - {at_step: 40, fault: power_off, node: 2, for: 5s}
//     - {after: 300ms, fault: kill_controller, for: 200ms}
//
// A node is named by its place in the gang, from 1, at the time of the fault. The user's page is
// docs/scenarios.md.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "base/time.h"

namespace longhaul::spec {

enum class ScenarioFaultKind {
  kKillWorker,
  kStopWorker,
  kKillAgent,
  kPowerOff,
  kCutLink,
  kSlowLink,
  kKillController,
  kFullDisk,
};

// "kill_worker" and so on, as in the file.
std::string_view NameOf(ScenarioFaultKind kind);

struct ScenarioFault {
  ScenarioFaultKind kind = ScenarioFaultKind::kKillWorker;
  int line = 0;  // of the file
  // When the job has done this step for the first time; without it, `after` the fault before it.
  std::optional<uint64_t> at_step;
  Duration after{};
  uint32_t rank = 0;  // of faults of a worker
  uint32_t node = 0;  // of faults of a node: the place in the gang, from 1
  Duration lasts{};   // zero: of a kind that does not end
  // Of a slow link. Zero: not changed.
  Duration delay{};
  uint64_t rate_bits_per_s = 0;
};

// "worker 3", "node 2", or "" for a fault of neither.
std::string TargetOf(const ScenarioFault& fault);

struct Scenario {
  std::string name;
  uint32_t nodes = 0;  // of the job
  uint32_t spares = 0;
  uint32_t processes_per_node = 1;
  uint64_t steps = 0;
  Duration step{};  // of the computation of a step
  uint64_t snapshot_every = 5;
  std::vector<ScenarioFault> faults;

  uint32_t workers() const { return nodes * processes_per_node; }
};

// Reads a file. The error names the source, the line, the key, the value and what is expected. What
// is accepted has at most 64 nodes, 256 workers and 64 faults, each of which can happen.
Result<Scenario> ParseScenario(std::string_view text, std::string_view source);

}  // namespace longhaul::spec
