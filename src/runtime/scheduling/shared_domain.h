// The domain of a level of the network in which a job's nodes lie.
#pragma once

#include <string>
#include <vector>

#include "spec/cluster/topology.h"

namespace longhaul::runtime::scheduling {

// Returns the name of the domain that holds all nodes; empty if they lie in several, if one of them
// or the level is unknown, and for no nodes.
std::string SharedDomain(const spec::Topology& topology, const std::vector<std::string>& nodes,
                         const std::string& level);

}  // namespace longhaul::runtime::scheduling
