// Counts what a state keeps count of from scratch: at its beginning, and to check it.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "scheduler/state/state.h"
#include "spec/cluster/topology.h"

namespace longhaul::scheduler {

enum class Forest : uint8_t { kNetwork, kGroupings };

// The node as it is when nothing runs on it. Marks of unhealthy devices are not part of it: it
// answers what the hardware could hold.
NodeState EmptyNode(const spec::Topology& topology, NodeIndex index, GroupIndex group);

// The counters of all domains of a forest, by level; their versions are zero.
std::vector<std::vector<DomainCounters>> CountDomains(const spec::Topology& topology,
                                                      std::span<const NodeState> nodes,
                                                      Forest forest);

// See State::Recount.
std::string Recount(const State& state);

}  // namespace longhaul::scheduler
