// The cluster file in YAML: the nodes of a cluster, and the domains that contain them.
//
// docs/cluster-file.md is the user's page with grammar and example. A file declares device models
// and node kinds once and then nodes, one by one or as regular parts ("2 blocks of 8 leaves of 16
// hosts"). Leaves out queues (spec/queue/queue.h) and later changes of nodes.
#pragma once

#include <string_view>

#include "base/status.h"
#include "spec/cluster/topology.h"

namespace longhaul::spec {

// Reads and expands a cluster file. `source` names it in messages: "cluster.yaml:3: ...".
// Topology::Create has accepted the result.
Result<ClusterDeclaration> ParseClusterFile(std::string_view text, std::string_view source);

}  // namespace longhaul::spec
