#include "runtime/simulation/world.h"

#include <algorithm>

namespace longhaul::runtime::simulation {

uint32_t SparesOf(const SimulationOptions& options) {
  return options.spares.value_or(std::max<uint32_t>(1, options.nodes / 40));
}

World::World(const SimulationOptions& wanted)
    : options(wanted),
      random(wanted.seed),
      queue(InstantFromNanoseconds(kStartNs)),
      end(InstantFromNanoseconds(kStartNs) + wanted.length),
      nodes(wanted.nodes),
      in_attempt(wanted.nodes),
      audit(kGlobalBatch),
      record(wanted.physics.step) {
  CHECK(wanted.nodes > SparesOf(wanted)) << "a gang needs a node beside the spares";
  ranks = (wanted.nodes - SparesOf(wanted)) * wanted.processes_per_node;
  for (const FaultRate& rate : kFaultRates) result.faults[std::string(rate.name)] = 0;
  for (size_t i = 0; i < nodes.size(); ++i) {
    nodes[i].id = NodeId("node-" + std::to_string(i + 1));
    index[nodes[i].id.value()] = i;
  }
}

Duration World::Delay() {
  return DurationFromSeconds(random.Exponential(ToSeconds(options.physics.message)));
}

Duration World::Around(Duration mean) {
  return DurationFromSeconds(ToSeconds(mean) * (2.0 / 3 + random.Uniform() * 2 / 3));
}

bool World::Holds(const SimNode& node, uint64_t step) const {
  return std::any_of(seals.begin(), seals.end(), [&](const SimSeal& seal) {
    return seal.step == step && seal.number > node.last_missed_seal;
  });
}

}  // namespace longhaul::runtime::simulation
