// The cluster that a job is planned for: nodes with slots for workers, cores and memory.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/status.h"
#include "base/units.h"

namespace longhaul::spec {

struct NodeSpec {
  std::string name;    // "node-1"
  uint32_t slots = 0;  // the number of workers that it accepts
  uint32_t cores = 0;  // this node's share where several nodes share one machine; at least 1
  Bytes memory;        // the same share; zero: unknown

  friend bool operator==(const NodeSpec&, const NodeSpec&) = default;
};

struct ClusterSpec {
  std::vector<NodeSpec> nodes;

  uint64_t slots() const;  // of all nodes

  friend bool operator==(const ClusterSpec&, const ClusterSpec&) = default;
};

// The name of the node with this rank: "node-1" for 0.
std::string NodeName(uint32_t node_rank);

// The embedded cluster: `nodes` agents on one machine that share its cores and memory evenly (a
// share is never below one core). Reads nothing from the machine: its counts are arguments. Rejects
// nodes outside 1 to 100,000, slots outside 1 to 1,024 and a machine without a core.
Result<ClusterSpec> LocalCluster(uint32_t nodes, uint32_t slots, uint32_t machine_cores,
                                 Bytes machine_memory);

}  // namespace longhaul::spec
