#include "spec/cluster/cluster.h"

#include <algorithm>

namespace longhaul::spec {

namespace {

constexpr uint32_t kMaxNodes = 100'000;  // as resources.nodes in a job file
constexpr uint32_t kMaxSlots = 1'024;    // as resources.processes_per_node

}  // namespace

uint64_t ClusterSpec::slots() const {
  uint64_t sum = 0;
  for (const NodeSpec& node : nodes) sum += node.slots;
  return sum;
}

std::string NodeName(uint32_t node_rank) {
  return "node-" + std::to_string(static_cast<uint64_t>(node_rank) + 1);
}

Result<ClusterSpec> LocalCluster(uint32_t nodes, uint32_t slots, uint32_t machine_cores,
                                 Bytes machine_memory) {
  if (nodes < 1 || nodes > kMaxNodes) {
    return InvalidArgument("a cluster has 1 to 100,000 nodes, not " + std::to_string(nodes));
  }
  if (slots < 1 || slots > kMaxSlots) {
    return InvalidArgument("a node has 1 to 1,024 slots, not " + std::to_string(slots));
  }
  if (machine_cores < 1) return InvalidArgument("a machine has at least one core");
  if (machine_memory < Bytes(0)) {
    return InvalidArgument("a machine's memory is never negative: " + ToString(machine_memory));
  }
  ClusterSpec cluster;
  cluster.nodes.reserve(nodes);
  for (uint32_t i = 0; i < nodes; ++i) {
    // The first nodes take the cores that are left over.
    const uint32_t cores = machine_cores / nodes + (i < machine_cores % nodes ? 1 : 0);
    cluster.nodes.push_back(
        {NodeName(i), slots, std::max(cores, 1u), machine_memory / static_cast<int64_t>(nodes)});
  }
  return cluster;
}

}  // namespace longhaul::spec
