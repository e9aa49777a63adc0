// The nodes of a Kubernetes cluster in the scheduler's terms: kinds, domains, classes and shapes.
//
// The scheduler knows classes of nodes that selectors and taints cannot distinguish. Here a class
// is the set of those node rules (node_rules.h), of all that pods have now, that permit the node.
// So labels that no pod asks for, such as the node's own name, do not divide the nodes.
//
// A domain's name is the path of the labels from the top, so it never lies in two others. A node
// without the label of a level is in a domain of its own there. Devices are whole ones of a device
// plugin; the kubelet chooses which ones a pod gets. Left out: parts of devices, NVLink domains
// (groupings), preferences.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <tuple>
#include <vector>

#include "base/status.h"
#include "engines/kubernetes/protocol/objects/node.h"
#include "engines/kubernetes/scheduling/amounts.h"
#include "engines/kubernetes/scheduling/node_rules.h"
#include "scheduler/event.h"
#include "scheduler/state/shape.h"
#include "spec/cluster/topology.h"

namespace longhaul::engines::kubernetes {

struct ClusterModelSettings {
  // Names under which device plugins offer accelerators. A node offers one of them; if it has
  // several, the first one here, and the others are counted like any resource.
  std::vector<std::string> device_resources = {"nvidia.com/gpu", "amd.com/gpu", "habana.ai/gaudi",
                                               "gpu.intel.com/i915"};
  // Labels of the network's domains, lowest first. At most spec::kMaxLevels.
  std::vector<std::string> topology_labels = {"network.topology.nvidia.com/leaf",
                                              "network.topology.nvidia.com/spine",
                                              "network.topology.nvidia.com/core"};
  std::string product_label = "nvidia.com/gpu.product";  // the device model
};

class ClusterModel {
 public:
  explicit ClusterModel(ClusterModelSettings settings);

  enum class Change : uint8_t {
    kNothing,
    kState,  // whether it takes pods, or how many of its devices work
    kFacts,  // the topology has to be made anew
  };
  Change SetNode(Node node);
  void RemoveNode(const std::string& name);
  bool HasNode(std::string_view name) const { return nodes_.contains(name); }
  // Requires that the model has it.
  const Node& node(std::string_view name) const { return nodes_.find(name)->second.node; }
  size_t nodes() const { return nodes_.size(); }

  // What the pods that are present need. Each use is given back.
  void UseRules(const std::string& key, const NodeRules& rules);
  void ReleaseRules(const std::string& key);
  void UseResources(const Amounts& needs);
  void ReleaseResources(const Amounts& needs);
  // Whether rules or resources are used that the topology does not express yet.
  bool is_behind() const { return behind_; }

  // The cluster with the present nodes, rules and resources. Shapes and events refer to the last
  // one. Requires a node.
  Result<spec::Topology> MakeTopology();

  // The shape of a task, for a pod with these needs and rules; kFailedPrecondition names what the
  // cluster does not offer or what cannot be counted. Requires a topology of present needs.
  Result<scheduler::Shape> ShapeOf(const Amounts& needs, const std::string& rules) const;
  // What others use of a node: `load`, and devices that do not work.
  scheduler::NodeShared SharedOf(const std::string& node, const Amounts& load) const;
  spec::NodeCondition ConditionOf(const std::string& node) const;
  // Whether the node has as much as this. Requires that the model has it.
  bool Holds(const std::string& node, const Amounts& use) const;
  // The level of a topology label, such as PodGroups name them; nothing for a label of no level.
  std::optional<scheduler::Tier> TierOf(std::string_view label) const;

  ResourceNames& names() { return names_; }
  const ResourceNames& names() const { return names_; }

 private:
  struct Entry {
    Node node;
    Amounts supply;
    std::optional<ResourceId> device;  // that the node offers
    int64_t devices = 0;               // of its capacity, at most spec::kMaxDevices
    int64_t broken = 0;                // of these
  };
  struct Rules {
    NodeRules rules;
    size_t uses = 0;
    uint64_t since = 0;     // the order in which they came
    bool rejected = false;  // they would divide the nodes into too many classes
  };
  Entry EntryOf(Node node);
  static bool SameFacts(const Entry& a, const Entry& b);
  bool IsDeviceResource(ResourceId resource) const;
  void ChooseCounted();
  // By device model, devices, cpu, memory and counted resources.
  using KindNumbers = std::map<std::tuple<uint16_t, size_t, int64_t, int64_t,
                                          std::array<int64_t, spec::kMaxCountedResources>>,
                               uint32_t>;
  void DeclareNode(const Entry& entry, KindNumbers& kinds, spec::ClusterDeclaration& cluster);
  void DeclareClasses(spec::ClusterDeclaration& cluster);
  std::string ModelOf(const Entry& entry) const;

  const ClusterModelSettings settings_;
  ResourceNames names_;
  std::vector<ResourceId> device_resources_;
  std::map<std::string, Entry, std::less<>> nodes_;
  std::map<std::string, Rules> rules_;
  std::map<ResourceId, size_t> used_resources_;  // other than cpu, memory, pods and devices
  uint64_t last_rules_ = 0;
  bool behind_ = false;

  // Of the last topology.
  std::vector<ResourceId> counted_;
  std::vector<std::string> levels_;  // labels
  std::map<std::string, uint16_t> models_;
  std::map<std::string, ResourceId> resource_of_model_;
  std::map<std::string, scheduler::ClassSet> classes_;  // by rules
};

}  // namespace longhaul::engines::kubernetes
