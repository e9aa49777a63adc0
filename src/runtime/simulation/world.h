// The state that the classes behind Simulate() share; private to this folder.
#pragma once

#include <array>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "base/random.h"
#include "runtime/agent/agent_core.h"
#include "runtime/simulation/audit.h"
#include "runtime/simulation/simulation.h"
#include "sim/event_queue.h"

namespace longhaul::runtime::simulation {

// A worker process.
struct SimWorker {
  WorkerId id;
  StartOrder start;
  uint64_t life = 0;  // of its node; callbacks of an older life are void
  bool stopped = false;
  bool hung = false;
  bool dying = false;
  int pending_signal = 0;  // sent while it was stopped
  proto::PhaseEntered::Phase phase = proto::PhaseEntered::PHASE_UNSPECIFIED;
};

// A copy that a node keeps of what a rank of another node sealed.
struct SimCopy {
  uint64_t attempt = 0;  // that sealed it
  bool damaged = false;  // a bit of it has flipped
  Instant since{};
};

// A snapshot that all live ranks sealed in memory at the same time, because the steps are
// synchronous.
struct SimSeal {
  uint64_t step = 0;    // 0: none
  uint64_t number = 0;  // of this seal, from 1
  uint64_t attempt = 0;
  std::map<uint32_t, size_t> places;  // rank -> node index
  Instant since{};
  bool given_up = false;  // an attempt has begun from an earlier step
};

// A committed checkpoint on the disk that all nodes share.
struct SimCheckpoint {
  uint64_t step = 0;
  uint64_t attempt = 0;  // that sealed it

  auto operator<=>(const SimCheckpoint&) const = default;
};

struct SimNode {
  NodeId id;
  std::unique_ptr<AgentCore> core;  // null while the machine is down
  uint64_t life = 0;                // rises with each boot; also the agent's incarnation
  bool connected = false;
  uint64_t stream = 0;  // rises with each connection
  Instant connected_at{};
  Instant lost_controller_at{};
  bool cut = false;  // the link is broken, and no stream can begin
  // Nothing arrives, although no stream has ended; what has been sent meanwhile arrives later.
  bool silent = false;
  Instant flows_again{};
  std::vector<std::function<void()>> held_back;
  uint64_t cuts = 0;
  Duration retry{};       // the newest pause before it tries to connect
  Duration link_delay{};  // of what is sent to the node, in addition
  Instant last_arrival_here{};
  Instant last_arrival_from{};
  bool disk_full = false;
  std::optional<Instant> timer;
  bool acknowledging = false;
  std::map<WorkerId, SimWorker> workers;
  uint64_t last_missed_seal = 0;  // its memory holds only later ones
  std::set<uint64_t> damaged;     // steps whose copy here has a flipped bit
  std::map<std::pair<uint64_t, uint32_t>, SimCopy> copies;  // for other nodes, by step and rank
  Instant memory_since{};                                   // everything in memory is newer
  Instant booted{};
  bool memory_left = false;  // by an agent that has died, for the next one
  // Until then workers that start here fail, or hang.
  Instant broken_until{};
  bool broken_silently = false;
  bool broken_link = false;  // else a device
  proto::PhaseEntered::Phase hangs_in = proto::PhaseEntered::START_UP;
  bool check_shows = false;  // tests of a node check show it
};

// One attempt of the training job, as its workers execute it.
struct SimAttempt {
  uint64_t attempt = 0;
  uint32_t world = 0;
  uint64_t restored = 0;
  uint64_t step = 0;
  uint64_t interval = 10;
  uint64_t last_snapshot = 0;
  std::array<uint32_t, 6> in_phase{};  // workers that have entered it
  uint32_t alive = 0;
  uint32_t stopped = 0;  // or hung: no worker passes the next collective
  bool broken = false;   // a worker has ended
  bool jammed = false;   // a worker hangs because of a part that stays broken
  bool stepping = false;
  Instant began{};  // when its first worker started
  // The stretch of steps under way. A stopped worker finishes its part later, by the time it is
  // stopped.
  uint64_t first = 0;
  uint64_t last = 0;
  bool snapshot = false;
  Instant ends{};
  Instant stopped_at{};               // since when a worker is stopped
  bool waiting = false;               // its end came while a worker was stopped
  std::map<uint32_t, size_t> places;  // rank -> node index
};

inline constexpr int64_t kStartNs = 1'767'225'600'000'000'000;  // 2026-01-01T00:00:00Z
// Samples of a step.
inline constexpr uint64_t kGlobalBatch = 2048;

// The number of nodes outside the planned gang.
uint32_t SparesOf(const SimulationOptions& options);

class World {
 public:
  explicit World(const SimulationOptions& wanted);

  Duration Delay();                // of a message
  Duration Around(Duration mean);  // uniform within a third of it
  bool IsRival(const WorkerId& worker) const { return worker.job.value() != job_id; }
  // Whether reports stand for all workers, because there are too many to simulate each one's.
  bool Aggregated() const { return ranks > options.per_worker_limit; }
  // Whether the memory of the node has the snapshot of the step.
  bool Holds(const SimNode& node, uint64_t step) const;
  // Whether nodes that the controller hears have good snapshots of all ranks, for the places of
  // this gang.
  bool LiveNodesHold(const SimSeal& seal, const std::vector<std::string>& gang) const;

  const SimulationOptions options;
  Random random;
  sim::EventQueue queue;
  const Instant end;
  bool controller_up = true;
  std::vector<SimNode> nodes;
  std::map<std::string, size_t> index;  // of a node by name
  uint32_t ranks = 0;                   // of the size that the job is planned for
  const std::string job_id = "job-1";
  SimAttempt attempt;
  std::array<SimSeal, 2> seals;        // the newest two
  uint64_t sealed = 0;                 // how many there have been
  std::vector<bool> in_attempt;        // by node
  std::map<SimCheckpoint, bool> disk;  // the committed ones, and whether each is damaged
  Audit audit;
  std::set<size_t> slow_nodes;  // nodes whose device is slow
  Instant outage_until{};       // until then no group forms
  Instant disk_full_until{};    // until then no checkpoint can be written
  // Observers, where there are any: of each step that is done, and of the controller's attempts.
  std::function<void(uint64_t)> on_step;
  std::function<void(const proto::AttemptNotification&)> on_attempt;
  ReplayRecord record;
  SimulationResult result;
  bool job_over = false;
};

}  // namespace longhaul::runtime::simulation
