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

// What happened within the last moments may not have been reported yet.
bool World::LiveNodesHold(const SimSeal& seal, const std::vector<std::string>& gang) const {
  const Duration reported = 20 * options.physics.message + std::chrono::milliseconds(1);
  const auto is_known = [&](Instant since) { return since + reported <= queue.now(); };
  const auto is_heard = [&](const SimNode& node) {
    return node.core != nullptr && node.connected && !node.silent && is_known(node.connected_at) &&
           is_known(node.flows_again);
  };
  return std::ranges::all_of(seal.places, [&](const auto& place) {
    const auto& [rank, of] = place;
    return std::ranges::any_of(nodes, [&, rank = rank, of = of](const SimNode& node) {
      if (!is_heard(node)) return false;
      const auto copy = node.copies.find({seal.step, rank});
      if (copy != node.copies.end() && copy->second.attempt == seal.attempt) {
        if (!copy->second.damaged && is_known(copy->second.since)) return true;
      }
      const bool own = node.id == nodes[of].id && Holds(node, seal.step);
      return own && is_known(seal.since) &&
             gang.at(rank / options.processes_per_node) == node.id.value();
    });
  });
}

}  // namespace longhaul::runtime::simulation
