// Injects faults: kinds by their rates, at times and places drawn from the seed.
#pragma once

#include <optional>

#include "runtime/simulation/world.h"

namespace longhaul::runtime::simulation {

class ControllerHost;
class SimNodes;
class SimTraining;

class FaultInjector {
 public:
  FaultInjector(World& world, ControllerHost& host, SimNodes& machines, SimTraining& training)
      : world_(world), host_(host), machines_(machines), training_(training) {}

  void PlanFault();
  void PlanFlap();
  void Inject(size_t node, const proto::InjectFault& order);

 private:
  void Strike(FaultKind kind);
  std::optional<size_t> PickGangNode();
  SimWorker* PickWorker(size_t node);

  World& world_;
  ControllerHost& host_;
  SimNodes& machines_;
  SimTraining& training_;
};

}  // namespace longhaul::runtime::simulation
