#include "runtime/simulation/scenario/scenario_run.h"

#include "runtime/simulation/scenario/laboratory.h"

namespace longhaul::runtime::simulation {

SimulationOptions OptionsOf(const spec::Scenario& scenario, uint64_t seed) {
  SimulationOptions options;
  options.nodes = scenario.nodes + scenario.spares;
  options.spares = scenario.spares;
  options.processes_per_node = scenario.processes_per_node;
  options.fault_factor = 0;
  options.seed = seed;
  options.total_steps = scenario.steps;
  options.snapshot_interval = scenario.snapshot_every;
  options.sharded = true;  // nothing is known of the state of a command
  options.peers = true;
  options.peers_notice = 1;
  options.retries_double = true;
  options.command = true;
  options.scenario = scenario;
  options.agent_start = kAgentStart;
  options.controller_start = kControllerStart;
  options.cold_fork = kColdFork;
  options.physics = LaboratoryPhysics(scenario.step);
  // Enough for steps that are done again, and for every fault to be over. A run that takes longer
  // is stopped and reported as a violation.
  options.length =
      std::chrono::hours(2) + options.physics.step * 4 * static_cast<int64_t>(scenario.steps);
  for (const spec::ScenarioFault& fault : scenario.faults) {
    options.length += fault.after + fault.lasts + std::chrono::minutes(10);
  }
  return options;
}

std::vector<std::vector<int>> CausesOf(const spec::Scenario& scenario,
                                       const SimulationResult& result) {
  const auto& faults = result.scenario.faults;
  std::vector<std::vector<int>> causes(faults.size());
  for (int i = 0; i < result.status.faults_size(); ++i) {
    const proto::Fault& recorded = result.status.faults(i);
    const Instant at = InstantFromNanoseconds(recorded.detected_at_ns());
    std::optional<size_t> newest, of_target;
    for (size_t k = 0; k < faults.size() && faults[k].at <= at; ++k) {
      newest = k;
      const spec::ScenarioFault& planned = scenario.faults.at(k);
      const bool worker = planned.node == 0 && recorded.rank() >= 0;
      const bool same = worker ? planned.rank == static_cast<uint32_t>(recorded.rank())
                               : faults[k].node == recorded.node();
      if (!faults[k].node.empty() && same) of_target = k;
    }
    if (newest.has_value()) causes[of_target.value_or(*newest)].push_back(i);
  }
  return causes;
}

}  // namespace longhaul::runtime::simulation
