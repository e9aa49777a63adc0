#include "spec/cluster/topology.h"

#include <algorithm>
#include <limits>
#include <numeric>
#include <unordered_set>
#include <utility>

#include "base/check.h"
#include "base/text.h"

namespace longhaul::spec {

namespace {

// Free amounts are kept in 32 bits.
constexpr int64_t kMaxNodeAmount = std::numeric_limits<int32_t>::max();

constexpr std::array<std::pair<NodeCondition, std::string_view>, 6> kConditions = {{
    {NodeCondition::kReady, "ready"},
    {NodeCondition::kCordoned, "cordoned"},
    {NodeCondition::kDraining, "draining"},
    {NodeCondition::kSuspect, "suspect"},
    {NodeCondition::kDown, "down"},
    {NodeCondition::kSpare, "spare"},
}};

Status CheckCount(size_t count, size_t min, size_t max, std::string_view things) {
  if (count >= min && count <= max) return {};
  return InvalidArgument("a cluster has " + WithThousands(static_cast<int64_t>(min)) + " to " +
                         WithThousands(static_cast<int64_t>(max)) + " " + std::string(things) +
                         ", not " + WithThousands(static_cast<int64_t>(count)));
}

// Refuses empty names and names given twice. `name_of` gives each thing's name.
template <typename Things, typename NameOf>
Status CheckNames(const Things& things, std::string_view what, NameOf name_of) {
  std::unordered_set<std::string_view> seen;  // looked up only, never walked
  seen.reserve(things.size());
  for (const auto& thing : things) {
    const std::string& name = name_of(thing);
    if (name.empty()) return InvalidArgument("a " + std::string(what) + " has an empty name");
    if (!seen.insert(name).second) {
      return InvalidArgument("the " + std::string(what) + " '" + Printable(name, 60) +
                             "' is declared twice");
    }
  }
  return {};
}

Status CheckAmount(const std::string& owner, std::string_view what, int64_t amount) {
  if (amount >= 0 && amount <= kMaxNodeAmount) return {};
  return InvalidArgument(owner + " has " + std::string(what) + " of " + WithThousands(amount) +
                         ": 0 to " + WithThousands(kMaxNodeAmount) + ", please");
}

Status CheckKind(const NodeKind& kind, size_t models) {
  const std::string owner = "node kind '" + Printable(kind.name, 60) + "'";
  if (kind.devices.size() > kMaxDevices) {
    return InvalidArgument(owner + " has " + std::to_string(kind.devices.size()) +
                           " devices: at most " + std::to_string(kMaxDevices));
  }
  if (!kind.devices.empty() && kind.model >= models) {
    return InvalidArgument(owner + " has a device model that isn't declared");
  }
  for (const DevicePlace& place : kind.devices) {
    if (std::max({place.island, place.rail, place.numa_node}) >= kMaxDevices) {
      return InvalidArgument(owner + " has an island, rail or NUMA node above " +
                             std::to_string(kMaxDevices - 1));
    }
  }
  RETURN_IF_ERROR(CheckAmount(owner, "cpu (thousandths)", kind.cpu_milli));
  RETURN_IF_ERROR(CheckAmount(owner, "memory (MiB)", kind.memory_mib));
  for (const int64_t amount : kind.counted) {
    RETURN_IF_ERROR(CheckAmount(owner, "a counted resource", amount));
  }
  return {};
}

// A domain must lie in one parent, or the levels would not form a tree.
Status CheckNodes(const ClusterDeclaration& cluster) {
  // By level: which parent a domain lies in.
  std::vector<std::map<std::string_view, std::string_view>> parents(cluster.levels.size());
  const DeclaredNode* previous = nullptr;
  for (const DeclaredNode& node : cluster.nodes) {
    const auto owner = [&node] { return "node '" + Printable(node.name, 60) + "'"; };
    if (node.kind >= cluster.kinds.size()) {
      return InvalidArgument(owner() + " is of a kind that isn't declared");
    }
    if (node.domains.size() != cluster.levels.size()) {
      return InvalidArgument(owner() + " names " + std::to_string(node.domains.size()) +
                             " domains for " + std::to_string(cluster.levels.size()) + " levels");
    }
    // Neighbours mostly lie in the same domains, which have been checked then.
    const bool checked = previous != nullptr && node.domains == previous->domains;
    previous = &node;
    if (checked) continue;
    for (size_t level = 0; level + 1 < node.domains.size(); ++level) {
      // A node without a domain here has one of its own parent; nothing to contradict.
      if (node.domains[level].empty()) continue;
      const auto [it, fresh] =
          parents[level].try_emplace(node.domains[level], node.domains[level + 1]);
      if (!fresh && it->second != node.domains[level + 1]) {
        return InvalidArgument(cluster.levels[level] + " '" + Printable(it->first, 60) +
                               "' lies in " + cluster.levels[level + 1] + " '" +
                               Printable(it->second, 60) + "' and, by " + owner() + ", in '" +
                               Printable(node.domains[level + 1], 60) + "'");
      }
    }
  }
  return {};
}

Status CheckDeclaration(const ClusterDeclaration& cluster) {
  RETURN_IF_ERROR(CheckCount(cluster.nodes.size(), 1, kMaxTopologyNodes, "nodes"));
  RETURN_IF_ERROR(CheckCount(cluster.kinds.size(), 1, kMaxTopologyNodes, "node kinds"));
  RETURN_IF_ERROR(CheckCount(cluster.models.size(), 0, kMaxDeviceModels, "device models"));
  RETURN_IF_ERROR(CheckCount(cluster.levels.size(), 1, kMaxLevels, "levels"));
  RETURN_IF_ERROR(CheckCount(cluster.groupings.size(), 0, kMaxGroupings, "groupings"));
  RETURN_IF_ERROR(CheckCount(cluster.counted.size(), 0, kMaxCountedResources, "counted resources"));
  const auto itself = [](const std::string& name) -> const std::string& { return name; };
  const auto name_of = [](const auto& thing) -> const std::string& { return thing.name; };
  RETURN_IF_ERROR(CheckNames(cluster.levels, "level", itself));
  RETURN_IF_ERROR(CheckNames(cluster.groupings, "grouping", itself));
  RETURN_IF_ERROR(CheckNames(cluster.counted, "counted resource", itself));
  RETURN_IF_ERROR(CheckNames(cluster.models, "device model", name_of));
  RETURN_IF_ERROR(CheckNames(cluster.kinds, "node kind", name_of));
  RETURN_IF_ERROR(CheckNames(cluster.nodes, "node", name_of));
  for (const DeviceModel& model : cluster.models) {
    RETURN_IF_ERROR(CheckAmount("device model '" + Printable(model.name, 60) + "'", "memory (MiB)",
                                model.memory_mib));
  }
  for (const NodeKind& kind : cluster.kinds) {
    RETURN_IF_ERROR(CheckKind(kind, cluster.models.size()));
  }
  return CheckNodes(cluster);
}

// By node: the rank of its domain's first appearance under the order of the levels above.
// After this, the nodes of each domain of each level are contiguous, so a domain is a range of
// indices. Domains keep the order in which the file names them first.
void SortByDomains(std::vector<DeclaredNode>& nodes, size_t levels) {
  std::vector<uint32_t> order(nodes.size());
  std::iota(order.begin(), order.end(), 0u);
  // From the lowest level up, each time stable: the highest level decides first.
  for (size_t level = 0; level < levels; ++level) {
    std::map<std::string_view, uint32_t> first_seen;
    std::vector<uint32_t> rank(nodes.size());
    for (size_t i = 0; i < nodes.size(); ++i) {
      // Neighbours mostly lie in the same domain.
      if (i > 0 && nodes[i].domains[level] == nodes[i - 1].domains[level]) {
        rank[i] = rank[i - 1];
        continue;
      }
      const auto next = static_cast<uint32_t>(first_seen.size());
      rank[i] = first_seen.try_emplace(nodes[i].domains[level], next).first->second;
    }
    std::stable_sort(order.begin(), order.end(),
                     [&](uint32_t a, uint32_t b) { return rank[a] < rank[b]; });
  }
  if (std::is_sorted(order.begin(), order.end())) return;
  std::vector<DeclaredNode> sorted;
  sorted.reserve(nodes.size());
  for (const uint32_t i : order) sorted.push_back(std::move(nodes[i]));
  nodes = std::move(sorted);
}

// Adds the node at `position` to the level: to its last domain, or to a new one.
void Extend(Level& level, const std::string& name, bool fresh, uint32_t position, uint32_t parent) {
  if (fresh || level.domains.empty()) level.domains.push_back({name, position, position, parent});
  level.domains.back().last = position + 1;
}

}  // namespace

std::string_view ToString(NodeCondition condition) {
  for (const auto& [known, word] : kConditions) {
    if (known == condition) return word;
  }
  return "unknown";
}

std::optional<NodeCondition> NodeConditionFrom(std::string_view word) {
  for (const auto& [condition, known] : kConditions) {
    if (known == word) return condition;
  }
  return std::nullopt;
}

Result<Topology> Topology::Create(ClusterDeclaration declaration) {
  RETURN_IF_ERROR(CheckDeclaration(declaration));
  Topology topology;
  topology.name_ = std::move(declaration.name);
  topology.kinds_ = std::move(declaration.kinds);
  topology.models_ = std::move(declaration.models);
  topology.counted_ = std::move(declaration.counted);
  SortByDomains(declaration.nodes, declaration.levels.size());
  topology.NumberNodes(declaration.nodes, declaration.levels);
  RETURN_IF_ERROR(topology.AddClasses(declaration.nodes, declaration.groupings));
  topology.AddGroupings(declaration.nodes, declaration.groupings);
  return topology;
}

// Requires nodes sorted by SortByDomains.
void Topology::NumberNodes(std::vector<DeclaredNode>& nodes,
                           const std::vector<std::string>& level_names) {
  for (const std::string& name : level_names) levels_.push_back({name, {}, {}});
  levels_.push_back({"cluster", {}, {}});
  for (uint32_t i = 0; i < nodes.size(); ++i) {
    nodes_.push_back({nodes[i].name, nodes[i].kind, 0, nodes[i].condition});
    Extend(levels_.back(), name_, i == 0, i, 0);
    // From the top down: a domain begins where its parent does, or where its name changes.
    bool fresh = i == 0;
    uint32_t parent = 0;
    for (size_t level = level_names.size(); level-- > 0;) {
      fresh = fresh || nodes[i].domains[level] != nodes[i - 1].domains[level];
      Extend(levels_[level], nodes[i].domains[level], fresh, i, parent);
      parent = static_cast<uint32_t>(levels_[level].domains.size() - 1);
    }
    for (Level& level : levels_) {
      level.domain_of_node.push_back(static_cast<uint32_t>(level.domains.size() - 1));
    }
  }
  by_name_.resize(nodes_.size());
  std::iota(by_name_.begin(), by_name_.end(), 0u);
  std::sort(by_name_.begin(), by_name_.end(),
            [&](uint32_t a, uint32_t b) { return nodes_[a].name < nodes_[b].name; });
}

// Nodes with the same labels and taints form a class, so a request is compared with a few classes
// and not with each node. Labels that number things (groupings) are left out, because they would
// give each node a class of its own.
Status Topology::AddClasses(const std::vector<DeclaredNode>& nodes,
                            const std::vector<std::string>& groupings) {
  std::map<NodeClass, uint16_t> known;
  for (size_t i = 0; i < nodes.size(); ++i) {
    // Neighbours are mostly alike.
    if (i > 0 && nodes[i].labels == nodes[i - 1].labels && nodes[i].taints == nodes[i - 1].taints) {
      nodes_[i].node_class = nodes_[i - 1].node_class;
      continue;
    }
    NodeClass node_class{nodes[i].labels, nodes[i].taints};
    for (const std::string& label : groupings) node_class.labels.erase(label);
    const auto next = static_cast<uint16_t>(known.size());
    const auto [it, fresh] = known.try_emplace(node_class, next);
    if (fresh && known.size() > kMaxNodeClasses) {
      return InvalidArgument(
          "the nodes have more than " + std::to_string(kMaxNodeClasses) +
          " distinct sets of labels and taints; make labels that number things groupings");
    }
    if (fresh) classes_.push_back(std::move(node_class));
    nodes_[i].node_class = it->second;
  }
  return {};
}

// The nodes of a group need not be contiguous, so a grouping has its own order of nodes, in which
// they are.
void Topology::AddGroupings(const std::vector<DeclaredNode>& nodes,
                            const std::vector<std::string>& groupings) {
  for (const std::string& label : groupings) {
    // Groups in the order of their first nodes; nodes without the label are one group, "".
    std::map<std::string, uint32_t> group_of_value;
    std::vector<std::pair<std::string, std::vector<uint32_t>>> groups;
    for (uint32_t i = 0; i < nodes.size(); ++i) {
      const auto found = nodes[i].labels.find(label);
      const std::string value = found == nodes[i].labels.end() ? "" : found->second;
      const auto next = static_cast<uint32_t>(groups.size());
      const auto [it, fresh] = group_of_value.try_emplace(value, next);
      if (fresh) groups.push_back({value, {}});
      groups[it->second].second.push_back(i);
    }
    Grouping grouping;
    grouping.level.name = label;
    grouping.level.domain_of_node.resize(nodes.size());
    for (const auto& [value, members] : groups) {
      const auto first = static_cast<uint32_t>(grouping.order.size());
      const auto index = static_cast<uint32_t>(grouping.level.domains.size());
      for (const uint32_t node : members) grouping.level.domain_of_node[node] = index;
      grouping.order.insert(grouping.order.end(), members.begin(), members.end());
      grouping.level.domains.push_back(
          {value, first, static_cast<uint32_t>(grouping.order.size()), 0});
    }
    groupings_.push_back(std::move(grouping));
  }
}

// By binary search over indices in the order of names: the names are stored once.
std::optional<uint32_t> Topology::Find(std::string_view node_name) const {
  const auto it = std::lower_bound(
      by_name_.begin(), by_name_.end(), node_name,
      [&](uint32_t node, std::string_view name) { return nodes_[node].name < name; });
  if (it == by_name_.end() || nodes_[*it].name != node_name) return std::nullopt;
  return *it;
}

std::optional<uint16_t> Topology::FindModel(std::string_view model_name) const {
  for (size_t i = 0; i < models_.size(); ++i) {
    if (models_[i].name == model_name) return static_cast<uint16_t>(i);
  }
  return std::nullopt;
}

std::optional<uint32_t> Topology::FindLevel(std::string_view level_name) const {
  for (size_t i = 0; i < levels_.size(); ++i) {
    if (levels_[i].name == level_name) return static_cast<uint32_t>(i);
  }
  return std::nullopt;
}

NodeKind UniformKind(std::string name, uint16_t model, uint32_t devices, uint32_t islands,
                     int64_t cpu_milli, int64_t memory_mib) {
  CHECK(islands >= 1 && islands <= devices && devices <= kMaxDevices);
  NodeKind kind;
  kind.name = std::move(name);
  kind.model = model;
  kind.cpu_milli = cpu_milli;
  kind.memory_mib = memory_mib;
  for (uint32_t i = 0; i < devices; ++i) {
    kind.devices.push_back({static_cast<uint8_t>(i * islands / devices), static_cast<uint8_t>(i),
                            static_cast<uint8_t>(i * 2 / devices)});
  }
  return kind;
}

namespace {

// "leaf-3"
std::string Numbered(std::string_view noun, uint32_t index) {
  return std::string(noun) + "-" + std::to_string(index + 1);
}

}  // namespace

ClusterDeclaration ClosCluster(uint32_t blocks, uint32_t leaves, uint32_t hosts) {
  ClusterDeclaration cluster;
  cluster.name = "clos";
  cluster.models = {{"gpu-80g", 80 * 1'024}};
  cluster.kinds = {UniformKind("host-8", 0, 8, 1, 192'000, 2'048 * 1'024)};
  for (uint32_t leaf = 0; leaf < blocks * leaves; ++leaf) {
    for (uint32_t host = 0; host < hosts; ++host) {
      DeclaredNode node;
      node.name = Numbered("node", leaf * hosts + host);
      node.domains = {Numbered("leaf", leaf), Numbered("block", leaf / leaves)};
      cluster.nodes.push_back(std::move(node));
    }
  }
  return cluster;
}

ClusterDeclaration RackScaleCluster(uint32_t racks, uint32_t racks_per_leaf) {
  CHECK(racks_per_leaf >= 1);
  constexpr uint32_t kHostsPerRack = 18;  // NVL72: 18 trays of 4 GPUs
  ClusterDeclaration cluster;
  cluster.name = "racks";
  cluster.groupings = {"nvlink_domain"};
  cluster.models = {{"gpu-192g", 192 * 1'024}};
  cluster.kinds = {UniformKind("tray-4", 0, 4, 1, 144'000, 960 * 1'024)};
  for (uint32_t i = 0; i < racks * kHostsPerRack; ++i) {
    const uint32_t rack = i / kHostsPerRack;
    DeclaredNode node;
    node.name = Numbered("node", i);
    node.domains = {Numbered("leaf", rack / racks_per_leaf), "block-1"};
    node.labels["nvlink_domain"] = Numbered("rack", rack);
    cluster.nodes.push_back(std::move(node));
  }
  return cluster;
}

}  // namespace longhaul::spec
