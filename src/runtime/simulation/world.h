// The simulated world behind Simulate(): private to this folder.
#pragma once

#include <array>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "base/random.h"
#include "runtime/agent_core.h"
#include "runtime/simulation/simulation.h"

namespace longhaul::runtime::simulation {

// A worker process.
struct SimWorker {
  WorkerId id;
  StartOrder start;
  uint64_t life = 0;  // of its node: a callback for an older life is void
  bool stopped = false;
  bool hung = false;
  bool dying = false;
  int pending_signal = 0;  // came while stopped
  wire::PhaseEntered::Phase phase = wire::PhaseEntered::PHASE_UNSPECIFIED;
};

// A snapshot that all living ranks sealed in their memories, at once: the steps are synchronous.
struct SimSeal {
  uint64_t step = 0;    // 0: none
  uint64_t number = 0;  // of this seal, from 1
  uint64_t epoch = 0;
  std::map<uint32_t, size_t> places;  // rank -> node index
};

struct SimNode {
  NodeId id;
  std::unique_ptr<AgentCore> core;  // null while the machine is down
  uint64_t life = 0;                // rises with each boot; also the agent's incarnation
  bool connected = false;
  uint64_t stream = 0;  // rises with each connection
  bool cut = false;     // the link is broken
  bool disk_full = false;
  std::optional<Instant> timer;
  bool acknowledging = false;
  std::map<WorkerId, SimWorker> workers;
  uint64_t last_missed_seal = 0;  // its memory holds the later ones
  std::set<uint64_t> damaged;     // steps whose copy here has a flipped bit
  // Kept for other nodes: (step, rank) and whether a bit of it has flipped.
  std::map<std::pair<uint64_t, uint32_t>, bool> copies;
  Instant memory_since{};  // nothing in it is older
};

// One epoch of the training job, as the workers live it.
struct SimEpoch {
  uint64_t epoch = 0;
  uint32_t world = 0;
  uint64_t restored = 0;
  uint64_t step = 0;
  uint64_t interval = 10;
  uint64_t last_snapshot = 0;
  std::array<uint32_t, 6> in_phase{};  // workers that have entered it
  uint32_t alive = 0;
  uint32_t stopped = 0;  // or hung: nobody gets past the next collective
  bool broken = false;   // a worker is gone
  bool stepping = false;
  Instant began{};                    // when its first worker was there
  bool waiting = false;               // a stretch of steps ended while somebody was stopped
  std::map<uint32_t, size_t> places;  // rank -> node index
};

class World {
 public:
  explicit World(const SimulationOptions& options);
  SimulationResult Run();

 private:
  // world.cc: the controller's side and the network
  void Feed(const wire::Event& event);
  void ArmTick();
  void ToController(size_t node, wire::FromAgent message);
  void ToAgent(size_t node, wire::Command command);
  void Acknowledge(size_t node);
  void Connect(size_t node);
  void BreakStream(size_t node, const std::string& reason);
  void CrashController();
  void RestartController();
  void SubmitJob();
  void PlanRival();
  void SubmitRival();
  void Watch(const wire::Notice& notice);
  bool IsRival(const WorkerId& worker) const { return worker.job.value() != job_id_; }
  void Look();
  void LookAtPlaces();
  Duration Delay();
  Duration Around(Duration mean);  // uniform within a third of it

  // nodes.cc: an agent's effects
  void Boot(size_t node);
  // Silent: nobody closes its sockets for it.
  void Crash(size_t node, bool silent);
  void Input(size_t node, const AgentInput& input);
  void Carry(size_t node, AgentEffect effect);
  void Spawn(size_t node, const SpawnWorker& order);
  void SignalTo(size_t node, const WorkerId& worker, int signal);
  void Die(size_t node, const WorkerId& worker, int exit_code, int signal, Duration delay);
  void Persist(size_t node, const PersistPieces& order);
  void Commit(size_t node, const WriteManifest& order);
  void Probe(size_t node, const ProbeWorkersNow& order);
  void SendTo(size_t node, const SendCopies& order);
  void LoseMemory(size_t node);
  void ArmTimer(size_t node);

  // training.cc: what the workers do
  void EnterPhase(size_t node, const WorkerId& worker, wire::PhaseEntered::Phase phase);
  void PhaseComplete(wire::PhaseEntered::Phase phase);
  void RestoreState(size_t node, const WorkerId& worker);
  void BeginStretch();
  void EndStretch(uint64_t epoch, uint64_t first, uint64_t last, bool snapshot);
  void WaitForSlot(uint64_t epoch, uint64_t first, uint64_t last, Duration waited);
  void ReportSteps(uint64_t first, uint64_t last, bool snapshot);
  void Seal();
  wire::RankContent ContentOf(uint32_t rank) const;
  bool Holds(const SimNode& node, uint64_t step) const;
  uint64_t StateOf(uint32_t rank, uint32_t world) const;
  // What is wrong with a worker's source in memory; empty: nothing.
  std::string WhyNotFromMemory(const SimNode& node, uint64_t step);
  std::string WhyNotFromPeer(const WorkerId& worker, const wire::Restore& restore);
  std::string WhyNotInPieces(const SimWorker& worker, std::vector<wire::Restore::Piece>& bad);
  std::string WhyNotFromDisk(const wire::Restore& restore);
  void WorkerGoneFromEpoch(const SimWorker& worker);
  bool Aggregated() const { return world_ > options_.per_worker_limit; }
  template <typename Action>
  void ForEachPlace(Action action);  // (rank, node index) of the present epoch, living workers

  // faults.cc
  void PlanFault();
  void PlanFlap();
  void Strike(FaultKind kind);
  std::optional<size_t> PickGangNode();
  SimWorker* PickWorker(size_t node);
  void Inject(size_t node, const wire::InjectFault& order);

  SimulationOptions options_;
  Random random_;
  sim::EventQueue queue_;
  Instant end_;
  Controller controller_;
  bool controller_up_ = true;
  std::optional<Instant> tick_;
  std::vector<SimNode> nodes_;
  std::map<std::string, size_t> index_;  // of a node by name
  uint32_t world_ = 0;                   // ranks of the size that the job is planned for
  std::string job_id_ = "job-1";
  SimEpoch epoch_;
  std::array<SimSeal, 2> seals_;                        // the newest two
  uint64_t sealed_ = 0;                                 // how many there were
  std::vector<bool> in_epoch_;                          // by node
  std::map<uint64_t, std::pair<uint64_t, bool>> disk_;  // committed step -> (epoch, damaged)
  Audit audit_;
  SimulationResult result_;
  std::vector<std::pair<Instant, std::string>> log_;  // serialized, while it is short
  bool log_kept_ = true;
  bool job_over_ = false;
  bool slot_waited_ = false;          // it has begun
  std::optional<std::string> rival_;  // the one that is there
  uint64_t rivals_ = 0;
};

}  // namespace longhaul::runtime::simulation
