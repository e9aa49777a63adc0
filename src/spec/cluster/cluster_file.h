// The cluster file: which nodes there are and in which domains they lie, in YAML.
//
// docs/cluster-file.md is the user's page with grammar and example. A file declares device models
// and node kinds once and then nodes, one by one or as regular parts ("2 blocks of 8 leaves of 16
// hosts"). Leaves out queues (spec/queue/queue.h) and what happens to nodes later.
#pragma once

#include <string_view>

#include "base/status.h"
#include "spec/cluster/topology.h"

namespace longhaul::spec {

// Reads and expands a cluster file. `source` names it in messages: "cluster.yaml:3: ...". What is
// returned has been accepted by Topology::Create.
Result<ClusterDeclaration> ParseClusterFile(std::string_view text, std::string_view source);

}  // namespace longhaul::spec
