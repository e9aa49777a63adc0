#include "runtime/scheduling/configuration/declared_cluster.h"

#include <algorithm>
#include <map>
#include <tuple>
#include <utility>
#include <vector>

#include "base/text.h"
#include "base/units.h"
#include "runtime/scheduling/job_request.h"
#include "scheduler/natural_order.h"
#include "spec/queue/queue.h"

namespace longhaul::runtime::scheduling {

namespace {

using spec::NodeCondition;

constexpr const char* kSlotsName = "slots";
constexpr const char* kUndeclaredModel = "undeclared";
constexpr const char* kUndeclaredDomain = "undeclared";
constexpr int64_t kMaxAmount = INT32_MAX;
constexpr double kVisibleMemory = 0.95;  // of what is installed, at least

// `declared` is the node's kind in the cluster file, or null. It supplies what the agent does not
// report, the device model and the positions of the devices, and bounds cores and memory.
spec::NodeKind MakeKind(const NodeFacts& facts, uint32_t slots_per_accelerator, uint16_t model,
                        const spec::NodeKind* declared) {
  const uint32_t accelerators = (facts.slots + slots_per_accelerator - 1) / slots_per_accelerator;
  auto cpu = static_cast<int64_t>(std::min<uint64_t>(facts.cores, kMaxAmount / 1000)) * 1000;
  int64_t memory = std::min<int64_t>(static_cast<int64_t>(facts.memory_bytes >> 20), kMaxAmount);
  if (declared != nullptr) {
    cpu = cpu == 0 ? declared->cpu_milli : std::min(cpu, declared->cpu_milli);
    memory = memory == 0 ? declared->memory_mib : std::min(memory, declared->memory_mib);
  }
  spec::NodeKind kind;
  if (accelerators > 0) {
    kind = spec::UniformKind("", model, accelerators, 1, cpu, memory);
    if (declared != nullptr && declared->devices.size() == accelerators) {
      kind.devices = declared->devices;
    }
  } else {
    kind.cpu_milli = cpu;
    kind.memory_mib = memory;
  }
  kind.counted[kSlots] = std::min<int64_t>(facts.slots, kMaxAmount);
  return kind;
}

// Adds the kinds of joined nodes to a declaration, one for all nodes with equal facts.
class KindTable {
 public:
  KindTable(spec::ClusterDeclaration& cluster, uint32_t slots_per_accelerator)
      : cluster_(cluster), slots_per_accelerator_(slots_per_accelerator) {}

  uint32_t Find(const NodeFacts& facts, uint16_t model, const spec::NodeKind* declared) {
    const auto [found, fresh] =
        index_.try_emplace({facts.slots, facts.cores, facts.memory_bytes, declared},
                           static_cast<uint32_t>(cluster_.kinds.size()));
    if (fresh) {
      cluster_.kinds.push_back(MakeKind(facts, slots_per_accelerator_, model, declared));
      cluster_.kinds.back().name = "joined-" + std::to_string(found->second);
    }
    return found->second;
  }

 private:
  spec::ClusterDeclaration& cluster_;
  uint32_t slots_per_accelerator_;
  std::map<std::tuple<uint32_t, uint64_t, uint64_t, const spec::NodeKind*>, uint32_t> index_;
};

}  // namespace

DeclaredCluster::DeclaredCluster(std::optional<spec::ClusterDeclaration> declaration)
    : declaration_(std::move(declaration)) {
  if (!declaration_) return;
  for (size_t i = 0; i < declaration_->nodes.size(); ++i) index_[declaration_->nodes[i].name] = i;
}

const spec::NodeKind* DeclaredCluster::KindOf(const std::string& node) const {
  const auto found = index_.find(node);
  if (found == index_.end()) return nullptr;
  return &declaration_->kinds[declaration_->nodes[found->second].kind];
}

NodeCondition DeclaredCluster::StandardCondition(const std::string& node) const {
  const auto found = index_.find(node);
  return found == index_.end() ? NodeCondition::kReady
                               : declaration_->nodes[found->second].condition;
}

std::string DeclaredCluster::ModelOf(const std::string& node) const {
  const spec::NodeKind* kind = KindOf(node);
  if (kind == nullptr || kind->devices.empty()) return kUndeclaredModel;
  return declaration_->models[kind->model].name;
}

bool DeclaredCluster::KnowsDevices(const std::string& node, uint32_t slots) const {
  const spec::NodeKind* kind = KindOf(node);
  return kind != nullptr && !kind->devices.empty() && slots <= kind->devices.size();
}

int64_t DeclaredCluster::DeviceMemoryOf(const std::string& node) const {
  const spec::NodeKind* kind = KindOf(node);
  if (kind == nullptr || kind->devices.empty()) return 0;
  return declaration_->models[kind->model].memory_mib;
}

std::string DeclaredCluster::Contradiction(const std::string& node, const NodeFacts& facts) const {
  const spec::NodeKind* kind = KindOf(node);
  if (kind == nullptr) return "";
  std::vector<std::string> found;
  if (facts.slots < kind->devices.size()) {
    found.push_back(std::to_string(facts.slots) + " slots instead of " +
                    std::to_string(kind->devices.size()) + " devices");
  }
  if (facts.cores > 0 && static_cast<int64_t>(facts.cores) * 1000 < kind->cpu_milli) {
    found.push_back(spec::AmountText(1, static_cast<int64_t>(facts.cores) * 1000) + " instead of " +
                    spec::AmountText(1, kind->cpu_milli));
  }
  const auto memory_mib = static_cast<int64_t>(facts.memory_bytes >> 20);
  // An operating system reports less than what is installed.
  if (memory_mib > 0 &&
      static_cast<double>(memory_mib) < kVisibleMemory * static_cast<double>(kind->memory_mib)) {
    found.push_back(ToString(Bytes(memory_mib << 20)) + " of memory instead of " +
                    ToString(Bytes(kind->memory_mib << 20)));
  }
  return Join(found, ", ");
}

// All names by which a reservation may refer to the node: its own, its domains, its groupings and
// the name for all nodes.
NodeNames DeclaredCluster::NamesOf(const std::string& node) const {
  NodeNames names = {node};
  const auto found = index_.find(node);
  if (found != index_.end()) {
    const spec::DeclaredNode& declared = declaration_->nodes[found->second];
    names.insert(names.end(), declared.domains.begin(), declared.domains.end());
    for (const std::string& grouping : declaration_->groupings) {
      const auto label = declared.labels.find(grouping);
      if (label != declared.labels.end()) names.push_back(label->second);
    }
  } else if (declaration_) {
    names.push_back(kUndeclaredDomain);
  }
  names.push_back(kAllNodes);
  return names;
}

// Declared nodes that have not joined are part of the topology, but down. Nodes that the file does
// not declare are added behind them, in natural order of their names.
Result<spec::Topology> DeclaredCluster::MakeTopology(std::span<const JoinedNode> joined,
                                                     uint32_t slots_per_accelerator,
                                                     const NodeReservations& reservations) const {
  spec::ClusterDeclaration cluster;
  if (declaration_) {
    cluster = *declaration_;
  } else {
    cluster.levels = {"leaf"};
  }
  cluster.counted = {kSlotsName};
  if (cluster.models.empty()) cluster.models.push_back({"slot", 0});
  const std::vector<spec::NodeKind> declared_kinds = cluster.kinds;
  for (spec::NodeKind& kind : cluster.kinds) {
    kind.counted[kSlots] = static_cast<int64_t>(kind.devices.size()) * slots_per_accelerator;
  }
  // Both are in the order of names.
  std::vector<const JoinedNode*> joined_as(cluster.nodes.size(), nullptr);
  std::vector<const JoinedNode*> undeclared;
  auto declared_at = index_.begin();
  for (const JoinedNode& node : joined) {
    while (declared_at != index_.end() && declared_at->first < node.name) ++declared_at;
    if (declared_at != index_.end() && declared_at->first == node.name) {
      joined_as[declared_at->second] = &node;
    } else {
      undeclared.push_back(&node);
    }
  }
  KindTable kinds(cluster, slots_per_accelerator);
  for (size_t i = 0; i < cluster.nodes.size(); ++i) {
    spec::DeclaredNode& node = cluster.nodes[i];
    if (joined_as[i] == nullptr) {
      node.condition = NodeCondition::kDown;
      continue;
    }
    const spec::NodeKind& declared = declared_kinds[node.kind];
    node.kind = kinds.Find(joined_as[i]->facts, declared.model, &declared);
    node.condition = joined_as[i]->condition;
  }
  std::sort(undeclared.begin(), undeclared.end(), [](const JoinedNode* a, const JoinedNode* b) {
    return scheduler::NaturalLess(a->name, b->name);
  });
  // Nothing is known of the devices of a node that the cluster file leaves out.
  uint16_t model = 0;
  if (declaration_ && !undeclared.empty()) {
    model = static_cast<uint16_t>(cluster.models.size());
    cluster.models.push_back({kUndeclaredModel, 0});
  }
  for (const JoinedNode* node : undeclared) {
    spec::DeclaredNode& added = cluster.nodes.emplace_back();
    added.name = node->name;
    added.kind = kinds.Find(node->facts, model, nullptr);
    added.domains.assign(cluster.levels.size(), declaration_ ? kUndeclaredDomain : "all");
    added.condition = node->condition;
  }
  if (!reservations.empty()) {
    for (spec::DeclaredNode& node : cluster.nodes) {
      for (const std::string& name : reservations.On(NamesOf(node.name))) {
        node.taints.insert(NodeReservations::TaintOf(name));
      }
    }
  }
  return spec::Topology::Create(std::move(cluster));
}

}  // namespace longhaul::runtime::scheduling
