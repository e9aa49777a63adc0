// Node checks in the simulated world: the state machine of node_check/node_check.h, over tests
// whose results follow from what is broken.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "runtime/controller/controller.h"
#include "runtime/node_check/node_check.h"
#include "runtime/simulation/world.h"

namespace longhaul::runtime::simulation {

class ControllerHost;

class SimNodeChecks {
 public:
  SimNodeChecks(World& world, ControllerHost& host) : world_(world), host_(host) {}

  // Answers with an event after the time that the check takes.
  void Begin(const NodeCheckOrder& order);

 private:
  struct Check {
    NodeCheckOrder order;
    std::vector<size_t> nodes;  // their indices, by the number in the check
    std::unique_ptr<node_check::NodeCheck> machine;
  };

  // Whether a test of the node shows what is broken there.
  bool Shows(const SimNode& node) const;
  bool FailsPair(const SimNode& client, const SimNode& server);
  void TakeSelfTests(Check& check, const std::vector<uint32_t>& nodes);
  void RunRound(std::shared_ptr<Check> check);
  void Finish(const Check& check);

  World& world_;
  ControllerHost& host_;
};

}  // namespace longhaul::runtime::simulation
