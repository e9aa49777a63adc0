// Strikes the simulated cluster with the faults of a scenario (spec/scenario/scenario.h), and
// records what the workers did after each.
//
// Faults happen in the order of the file. One that finds no process or no machine at its target
// happens when there is one. What of each kind is modelled: docs/scenarios.md.
#pragma once

#include <vector>

#include "runtime/simulation/world.h"

namespace longhaul::runtime::simulation {

class ControllerHost;
class SimNodes;
class SimTraining;

class ScenarioPlayer {
 public:
  ScenarioPlayer(World& world, ControllerHost& host, SimNodes& machines, SimTraining& training)
      : world_(world), host_(host), machines_(machines), training_(training) {}

  // Begins to observe the job, if there is a scenario.
  void Plan();
  const ScenarioRecord& record() const { return record_; }

 private:
  void OnStep(uint64_t step);
  // Plans the next fault, if its time is known.
  void PlanNext();
  void Strike();
  // Whether the fault could happen.
  bool TryStrike(const spec::ScenarioFault& fault);
  bool StrikeWorker(const spec::ScenarioFault& fault, size_t node);
  void CutLink(const spec::ScenarioFault& fault, size_t node);
  void BootAfter(Duration away, size_t node);
  std::optional<size_t> NodeAt(uint32_t place) const;  // a running one; places from 0

  World& world_;
  ControllerHost& host_;
  SimNodes& machines_;
  SimTraining& training_;
  ScenarioRecord record_;
  std::vector<std::string> gang_;  // of the newest attempt
  size_t next_ = 0;                // the fault that happens next
  bool planned_ = false;           // its time is known
  uint64_t highest_ = 0;
};

}  // namespace longhaul::runtime::simulation
