// The runtime in virtual time: the real Controller and the real AgentCore of every node, over a
// simulated network, processes, memories, disk and training job, with faults composed at random.
//
// The result is a function of the options, including the seed: two runs give the same event log to
// the byte. The controller's invariants are checked after every event and the agents' at intervals,
// and an independent record (Audit) compares what the workers did with the controller's status.
// Times rest on the constants in physics.h, so figures are always called simulated.
//
// Above `per_worker_limit` ranks the training job reports for all nodes at once and once each
// snapshot interval. Everything else (start, phases, exits, stores, commands) is simulated in full.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/random.h"
#include "runtime/controller/controller.h"
#include "runtime/simulation/audit.h"
#include "runtime/simulation/physics.h"
#include "runtime/simulation/replay/fault_trace.h"
#include "runtime/simulation/replay/replay_record.h"
#include "runtime/simulation/scenario/scenario_record.h"
#include "sim/event_queue.h"
#include "spec/scenario/scenario.h"

namespace longhaul::runtime::simulation {

struct SimulationOptions {
  uint32_t nodes = 2048;
  std::optional<uint32_t> spares;  // nodes outside the gang; nothing: 1/40, at least 1
  // Not 0: the job is elastic, from this many nodes up to all. It is planned for all but the
  // spares, and jobs of higher priority start and end.
  uint32_t minimum_nodes = 0;
  uint32_t processes_per_node = 1;  // one process stands for a node's accelerators
  Duration length = std::chrono::hours(24 * 54);
  uint64_t seed = 1;
  double fault_factor = 1.0;  // multiplies the rates of physics.h, which are per node
  uint64_t total_steps = 0;   // 0: trains until the time is over
  uint32_t per_worker_limit = 256;
  std::vector<proto::PlannedFault> planned;  // --inject
  bool sharded = false;            // each rank has a different state; else all have the same
  uint32_t pipeline = 0;           // with sharded, not 0: ranks of a stage have the same state
  bool peers = false;              // agents keep copies of each other's snapshots
  uint64_t snapshot_interval = 0;  // steps; 0: chosen by the controller
  uint32_t keep = 3;               // checkpoints on the disk, at least 1
  // The disk of the node with this index is slow_disk times as slow; 0: as the others'.
  uint32_t slow_disk_node = 0;
  int slow_disk = 0;
  // The first snapshot at or above this step finds no free slot for slot_wait; zero: none.
  uint64_t slot_wait_step = 0;
  Duration slot_wait{};
  proto::NumericPolicy numeric;
  // Not 0: at each multiple of this step a device computes NaN for one worker, but not when the
  // step is done again. Only where each worker reports.
  uint64_t nan_every = 0;
  uint64_t nan_always = 0;  // not 0: the data make the loss of this step NaN each time
  // The node with this index fails repeatedly, this long after each return; zero: never.
  uint32_t flapping_node = 0;
  Duration flaps_after{};
  // Failures at known times, in addition to the random ones (replay/trace_player.h).
  std::vector<TracedFault> trace;
  // An operator drains a node whose part stays broken this long after its failure.
  Duration operator_reaction = std::chrono::minutes(10);
  // The share of the parts that stay broken without an error which a node check shows.
  double check_shows = 0.8;
  // Each step is reported, although reports stand for all workers: the controller's limit for a
  // hang follows from the time between two reports.
  bool every_step = false;
  // The share of the deaths of a worker at which other workers lose a connection and end at once.
  double peers_notice = 0.5;
  // An agent tries to connect after pauses that double, as the real one; else about every 300 ms.
  bool retries_double = false;
  bool command = false;  // the job is a command that uses the worker API; else built in
  // Faults at known steps (scenario/scenario_player.h).
  std::optional<spec::Scenario> scenario;
  // Of a scenario: how long an agent needs to start, and the service of a controller.
  Duration agent_start{};
  Duration controller_start{};
  // Of a scenario: how long an agent that has just started needs for the start of a worker, because
  // it has no fork server yet.
  Duration cold_fork{};
  Physics physics;
  ControllerOptions controller;
  // Called with every logged event and its time, for example to write the log to a file.
  std::function<void(const proto::Event&, Instant)> on_event;
  // Called at intervals with the simulated time that has passed.
  std::function<void(Duration)> on_progress;
};

struct SimulationResult {
  proto::JobStatus status;                 // of the job, at the end
  std::map<std::string, uint64_t> faults;  // by name: how often each kind occurred
  uint64_t events = 0;                     // logged
  uint64_t happenings = 0;                 // processed events of the event queue
  uint64_t attempts = 0;
  uint64_t steps_taken = 0;
  uint64_t from_pieces = 0;       // workers that restored from memories of another layout
  uint64_t nans = 0;              // losses of workers that devices have made NaN
  uint64_t rivals = 0;            // jobs of higher priority that ran to their end
  Controller::UsageTotals usage;  // accelerator time of all jobs, at the end
  uint64_t log_hash = 0;          // of every logged (time, event), in order
  uint64_t state_hash = 0;        // of the controller at the end
  bool replay_agrees = true;      // each replay after a controller crash gave the earlier state
  uint64_t replays = 0;
  std::map<std::string, CauseCost> causes;  // of the trace: what its failures cost, by cause
  Duration slow_excess{};                   // by which slow devices made steps longer
  Duration redone_by_hand{};                // work repeated after damage that was found late
  std::vector<proto::NodeStatus> nodes;     // at the end
  ScenarioRecord scenario;
  std::vector<std::string> violations;  // empty: all invariants held
};

SimulationResult Simulate(const SimulationOptions& options);

}  // namespace longhaul::runtime::simulation
