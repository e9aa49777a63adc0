// Strikes the simulated cluster with the failures of a trace, and does what people do about those
// that the controller cannot handle.
//
// The controller has no node check, so an operator drains a node whose part stays broken
// (SimulationOptions::operator_reaction). Damage of the state that is found late is repaired by
// hand too: the work since then is charged as redone (ReplayRecord::RedoneByHand).
#pragma once

#include "runtime/simulation/world.h"

namespace longhaul::runtime::simulation {

class ControllerHost;
class SimNodes;
class SimTraining;

class TracePlayer {
 public:
  TracePlayer(World& world, ControllerHost& host, SimNodes& machines, SimTraining& training)
      : world_(world), host_(host), machines_(machines), training_(training) {}

  // Schedules the failures of the trace.
  void Plan();

 private:
  // A failure that finds no machine or no process at its place strikes when there is one.
  void Strike(const TracedFault& fault);
  void StrikeWorker(const TracedFault& fault, size_t node);
  void StrikeMachine(const TracedFault& fault, size_t node);
  void Maintain(const TracedFault& fault, size_t node);
  void SlowDown(const TracedFault& fault, size_t node);
  void Interrupt(const TracedFault& fault);
  void Damage(const TracedFault& fault, size_t node);
  // The part of the node stays broken until its repair.
  void Break(const TracedFault& fault, size_t node);
  void Cordon(size_t node, bool cordoned);
  std::optional<size_t> NodeAt(uint32_t place) const;
  SimWorker* WorkerOn(size_t node);

  World& world_;
  ControllerHost& host_;
  SimNodes& machines_;
  SimTraining& training_;
};

}  // namespace longhaul::runtime::simulation
