#include "service/controller/submission/usable_nodes.h"

#include <algorithm>
#include <utility>

namespace longhaul::service {

spec::ClusterSpec UsableNodes(const std::vector<proto::NodeStatus>& nodes,
                              const std::map<std::string, uint32_t>& absent, bool may_wait,
                              const planner::MachineFacts& facts) {
  spec::ClusterSpec cluster;
  for (const proto::NodeStatus& node : nodes) {
    if (!node.connected() || (node.cordoned() && !may_wait)) continue;
    cluster.nodes.push_back({node.name(), node.slots(), 1, Bytes(0)});
  }
  const auto connected = static_cast<uint32_t>(cluster.nodes.size());
  for (spec::NodeSpec& node : cluster.nodes) {
    node.cores = std::max(1U, facts.cores / connected);
    node.memory = facts.memory / connected;
  }
  if (!may_wait || connected == 0) return cluster;
  for (const auto& [name, devices] : absent) {
    if (devices == 0) continue;
    spec::NodeSpec node = cluster.nodes.front();
    node.name = name;
    node.slots = devices;
    cluster.nodes.push_back(std::move(node));
  }
  return cluster;
}

}  // namespace longhaul::service
