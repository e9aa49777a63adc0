// The simulated nodes: carry out the effects of each agent's core.
#pragma once

#include "runtime/simulation/world.h"

namespace longhaul::runtime::simulation {

class ControllerHost;
class FaultInjector;
class SimTraining;

class SimNodes {
 public:
  SimNodes(World& world, ControllerHost& host, SimTraining& training, FaultInjector& faults)
      : world_(world), host_(host), training_(training), faults_(faults) {}

  // The agent starts. It takes over the snapshots that an earlier one has left.
  void Boot(size_t node);
  // `silent`: the controller notices only the silence, as when a machine loses power.
  void Crash(size_t node, bool silent);
  // The same, and neither do the workers on other nodes.
  void PowerOff(size_t node);
  // The agent dies and its workers with it; the snapshots in memory remain.
  void KillAgent(size_t node);
  void Input(size_t node, const AgentInput& input);
  void SignalTo(size_t node, const WorkerId& worker, int signal);
  void Die(size_t node, const WorkerId& worker, int exit_code, int signal, Duration delay);

 private:
  void Carry(size_t node, AgentEffect effect);
  void Spawn(size_t node, const SpawnWorker& order);
  void Persist(size_t node, const PersistPieces& order);
  void Commit(size_t node, const WriteManifest& order);
  void RemoveOldCheckpoints(const WriteManifest& order);
  void Probe(size_t node, const ProbeWorkersNow& order);
  void Sample(size_t node, const SampleWorkersNow& order);
  void SendTo(size_t node, const SendCopies& order);
  void Receive(size_t node, const SendCopies& order);
  void End(size_t node, bool silent, bool unseen);
  std::vector<AgentFacts::HeldSnapshot> HeldBy(const SimNode& node) const;
  void LoseMemory(size_t node);
  void ArmTimer(size_t node);

  World& world_;
  ControllerHost& host_;
  SimTraining& training_;
  FaultInjector& faults_;
};

}  // namespace longhaul::runtime::simulation
