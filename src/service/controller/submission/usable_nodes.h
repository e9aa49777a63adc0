// The nodes for which a submitted job is planned.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "planner/local/cost.h"
#include "proto/status.pb.h"
#include "spec/cluster/cluster.h"

namespace longhaul::service {

// Returns the connected nodes. A job that says how many nodes it wants may wait for some: then the
// cordoned ones count too, and the `absent` ones of the cluster file, each with its number of
// devices. No absent node counts where none is connected, because nothing is known of any machine.
//
// The facts are those of the controller's machine, divided by its connected nodes: the planner's
// predictions assume that all nodes are alike.
spec::ClusterSpec UsableNodes(const std::vector<proto::NodeStatus>& nodes,
                              const std::map<std::string, uint32_t>& absent, bool may_wait,
                              const planner::MachineFacts& facts);

}  // namespace longhaul::service
