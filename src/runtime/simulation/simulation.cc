#include "runtime/simulation/simulation.h"

#include "runtime/simulation/controller_host.h"
#include "runtime/simulation/faults.h"
#include "runtime/simulation/node_checks.h"
#include "runtime/simulation/nodes.h"
#include "runtime/simulation/replay/trace_player.h"
#include "runtime/simulation/scenario/scenario_player.h"
#include "runtime/simulation/training.h"
#include "runtime/simulation/world.h"

namespace longhaul::runtime::simulation {

namespace {

// The classes over a world, which only store references to each other.
struct Simulator {
  explicit Simulator(const SimulationOptions& options)
      : world(options),
        host(world, machines, faults, checks),
        checks(world, host),
        machines(world, host, training, faults),
        training(world, machines),
        faults(world, host, machines, training),
        player(world, host, machines, training),
        scenario(world, host, machines, training) {}
  Simulator(const Simulator&) = delete;
  Simulator& operator=(const Simulator&) = delete;

  World world;
  ControllerHost host;
  SimNodeChecks checks;
  SimNodes machines;
  SimTraining training;
  FaultInjector faults;
  TracePlayer player;
  ScenarioPlayer scenario;
};

}  // namespace

SimulationResult Simulate(const SimulationOptions& options) {
  Simulator simulator(options);
  simulator.player.Plan();
  simulator.scenario.Plan();
  SimulationResult result = simulator.host.Run();
  result.scenario = simulator.scenario.record();
  return result;
}

}  // namespace longhaul::runtime::simulation
