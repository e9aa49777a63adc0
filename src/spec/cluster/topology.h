// The components of a cluster that the scheduler uses: nodes with devices, and the domains that
// contain them.
//
// Nodes are numbered so that every domain of the network is an interval [first, last) of node
// numbers: host < leaf (hosts that share all rail leaves) < block (leaves under one spine group) <
// cluster. Domains that do not follow that order, such as NVL72 racks, power rows and other failure
// domains, form a separate forest with its own order of the same nodes (`Grouping`).
//
// A `ClusterDeclaration` is the input of a user or a trace; `Topology::Create` checks it and
// numbers the nodes. docs/cluster-file.md documents the file, cluster_file.h reads it. Leaves out
// the state that changes while the cluster runs (scheduler/state) and the speed of links.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"

namespace longhaul::spec {

inline constexpr uint32_t kMaxTopologyNodes = 65'536;
inline constexpr uint32_t kMaxDevices = 16;          // of one node
inline constexpr uint32_t kMaxDeviceModels = 63;     // a mask of 64 bits, one for "no device"
inline constexpr uint32_t kMaxNodeClasses = 256;     // distinct sets of labels and taints
inline constexpr uint32_t kMaxCountedResources = 4;  // beside cpu and memory
inline constexpr uint32_t kMaxLevels = 4;            // between host and cluster
inline constexpr uint32_t kMaxGroupings = 4;

struct DeviceModel {
  std::string name;        // "H100"
  int64_t memory_mib = 0;  // of one device; zero: unknown

  friend bool operator==(const DeviceModel&, const DeviceModel&) = default;
};

// The position of a device in its node.
struct DevicePlace {
  uint8_t island = 0;  // devices of one island are connected by NVLink
  uint8_t rail = 0;    // the NIC of this device
  uint8_t numa_node = 0;

  friend bool operator==(const DevicePlace&, const DevicePlace&) = default;
};

// The properties that many nodes share.
struct NodeKind {
  std::string name;                  // "dgx-h100"
  uint16_t model = 0;                // index of a DeviceModel; ignored without devices
  std::vector<DevicePlace> devices;  // at most kMaxDevices
  int64_t cpu_milli = 0;             // thousandths of a core
  int64_t memory_mib = 0;
  std::array<int64_t, kMaxCountedResources> counted{};  // ordered as ClusterDeclaration::counted

  friend bool operator==(const NodeKind&, const NodeKind&) = default;
};

enum class NodeCondition : uint8_t {
  kReady,
  kCordoned,  // accepts no new work
  kDraining,  // accepts no new work; running jobs must leave
  kSuspect,   // on probation: only short work that may be preempted
  kDown,
  kSpare,  // reserved for repairs
};
std::string_view ToString(NodeCondition condition);
std::optional<NodeCondition> NodeConditionFrom(std::string_view word);

struct DeclaredNode {
  std::string name;
  uint32_t kind = 0;                 // index of a NodeKind
  std::vector<std::string> domains;  // by level, lowest first: {"leaf-3", "block-1"}
  std::map<std::string, std::string> labels;
  std::set<std::string> taints;
  NodeCondition condition = NodeCondition::kReady;

  friend bool operator==(const DeclaredNode&, const DeclaredNode&) = default;
};

struct ClusterDeclaration {
  std::string name = "cluster";
  std::vector<std::string> levels = {"leaf", "block"};  // lowest first
  std::vector<std::string> counted;                     // names of further resources: "rdma"
  std::vector<std::string> groupings;                   // labels that are domains: "nvlink_domain"
  std::vector<DeviceModel> models;
  std::vector<NodeKind> kinds;
  std::vector<DeclaredNode> nodes;

  friend bool operator==(const ClusterDeclaration&, const ClusterDeclaration&) = default;
};

// The nodes at positions [first, last) of a forest's order.
struct Domain {
  std::string name;
  uint32_t first = 0;
  uint32_t last = 0;
  uint32_t parent = 0;  // index in the level above; 0 at the top

  uint32_t hosts() const { return last - first; }
  friend bool operator==(const Domain&, const Domain&) = default;
};

struct Level {
  std::string name;
  std::vector<Domain> domains;           // in order of `first`; together: each node once
  std::vector<uint32_t> domain_of_node;  // by node number
};

// Nodes that share the value of a label: racks of one NVLink domain, rows on one power feed.
struct Grouping {
  Level level;                  // intervals of positions in `order`
  std::vector<uint32_t> order;  // position -> node number
};

struct TopologyNode {
  std::string name;
  uint32_t kind = 0;
  uint16_t node_class = 0;                          // index into Topology::classes()
  NodeCondition condition = NodeCondition::kReady;  // as declared
};

// Nodes that selectors and taints cannot distinguish.
struct NodeClass {
  std::map<std::string, std::string> labels;  // without those of groupings
  std::set<std::string> taints;

  friend auto operator<=>(const NodeClass&, const NodeClass&) = default;
};

class Topology {
 public:
  // Rejects counts beyond the limits above, a name given twice, an index out of range, a domain
  // that lies in two parents, and quantities below zero or above 2^31 - 1.
  static Result<Topology> Create(ClusterDeclaration declaration);

  const std::string& name() const { return name_; }
  std::span<const TopologyNode> nodes() const { return nodes_; }
  uint32_t size() const { return static_cast<uint32_t>(nodes_.size()); }
  const TopologyNode& node(uint32_t index) const { return nodes_[index]; }
  const NodeKind& kind_of(uint32_t index) const { return kinds_[nodes_[index].kind]; }
  std::span<const NodeKind> kinds() const { return kinds_; }
  std::span<const DeviceModel> models() const { return models_; }
  std::span<const NodeClass> classes() const { return classes_; }
  std::span<const std::string> counted() const { return counted_; }

  // The network's levels above the host, lowest first; the last is always the whole cluster.
  std::span<const Level> levels() const { return levels_; }
  std::span<const Grouping> groupings() const { return groupings_; }

  std::optional<uint32_t> Find(std::string_view node_name) const;
  // The numbers of all nodes, in the order of their names.
  std::span<const uint32_t> by_name() const { return by_name_; }
  std::optional<uint16_t> FindModel(std::string_view model_name) const;
  std::optional<uint32_t> FindLevel(std::string_view level_name) const;

 private:
  Topology() = default;
  void NumberNodes(std::vector<DeclaredNode>& nodes, const std::vector<std::string>& level_names);
  Status AddClasses(const std::vector<DeclaredNode>& nodes,
                    const std::vector<std::string>& groupings);
  void AddGroupings(const std::vector<DeclaredNode>& nodes,
                    const std::vector<std::string>& groupings);

  std::string name_;
  std::vector<TopologyNode> nodes_;
  std::vector<NodeKind> kinds_;
  std::vector<DeviceModel> models_;
  std::vector<NodeClass> classes_;
  std::vector<std::string> counted_;
  std::vector<Level> levels_;
  std::vector<Grouping> groupings_;
  std::vector<uint32_t> by_name_;
};

// A node kind with `devices` devices of one model in `islands` equal islands, a rail for each
// device and two NUMA nodes. Requires 1 <= islands <= devices <= kMaxDevices.
NodeKind UniformKind(std::string name, uint16_t model, uint32_t devices, uint32_t islands,
                     int64_t cpu_milli, int64_t memory_mib);

// A Clos: `blocks` blocks of `leaves` leaves of `hosts` hosts of 8 GPUs each, 80 GiB a GPU.
ClusterDeclaration ClosCluster(uint32_t blocks, uint32_t leaves, uint32_t hosts);

// `racks` racks of 18 hosts with 4 GPUs each that are one NVLink domain (the label and grouping
// "nvlink_domain"); a leaf is `racks_per_leaf` racks, a block all.
ClusterDeclaration RackScaleCluster(uint32_t racks, uint32_t racks_per_leaf);

}  // namespace longhaul::spec
