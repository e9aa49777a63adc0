#include "engines/kubernetes/scheduling/cluster_model.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "base/check.h"
#include "base/text.h"

namespace longhaul::engines::kubernetes {
namespace {

constexpr const char* kClassLabel = "class";
constexpr int64_t kMostAmount = std::numeric_limits<int32_t>::max();

int64_t Clamped(int64_t amount) { return std::clamp<int64_t>(amount, 0, kMostAmount); }

}  // namespace

ClusterModel::ClusterModel(ClusterModelSettings settings) : settings_(std::move(settings)) {
  CHECK(settings_.topology_labels.size() <= spec::kMaxLevels);
  for (const std::string& name : settings_.device_resources) {
    device_resources_.push_back(names_.Of(name));
  }
}

bool ClusterModel::IsDeviceResource(ResourceId resource) const {
  return std::find(device_resources_.begin(), device_resources_.end(), resource) !=
         device_resources_.end();
}

ClusterModel::Entry ClusterModel::EntryOf(Node node) {
  Entry entry;
  entry.supply = SupplyOf(node.allocatable, names_);
  const Amounts capacity = SupplyOf(node.capacity, names_);
  for (const ResourceId resource : device_resources_) {
    const int64_t has = std::max(capacity.Of(resource), entry.supply.Of(resource));
    if (has == 0) continue;
    entry.device = resource;
    entry.devices = std::min<int64_t>(has, spec::kMaxDevices);
    entry.broken = std::max<int64_t>(0, entry.devices - entry.supply.Of(resource));
    break;
  }
  entry.node = std::move(node);
  return entry;
}

bool ClusterModel::SameFacts(const Entry& a, const Entry& b) {
  const auto same_taints = [](const Taint& x, const Taint& y) {
    return x.key == y.key && x.value == y.value && x.effect == y.effect;
  };
  const auto others = [](const Entry& entry) {
    Amounts amounts = entry.supply;
    // Devices that do not work change the state, not the facts.
    std::erase_if(amounts.others,
                  [&](const auto& other) { return entry.device && other.first == *entry.device; });
    return amounts;
  };
  return a.device == b.device && a.devices == b.devices && others(a) == others(b) &&
         a.node.meta.labels == b.node.meta.labels &&
         std::equal(a.node.taints.begin(), a.node.taints.end(), b.node.taints.begin(),
                    b.node.taints.end(), same_taints);
}

ClusterModel::Change ClusterModel::SetNode(Node node) {
  const std::string name = node.meta.name;
  Entry entry = EntryOf(std::move(node));
  const auto found = nodes_.find(name);
  Change change = Change::kFacts;
  if (found != nodes_.end() && SameFacts(found->second, entry)) {
    const Node& before = found->second.node;
    const bool same = before.ready() == entry.node.ready() &&
                      before.unschedulable == entry.node.unschedulable &&
                      found->second.broken == entry.broken;
    change = same ? Change::kNothing : Change::kState;
  }
  nodes_.insert_or_assign(name, std::move(entry));
  behind_ = behind_ || change == Change::kFacts;
  return change;
}

void ClusterModel::RemoveNode(const std::string& name) {
  if (nodes_.erase(name) > 0) behind_ = true;
}

void ClusterModel::UseRules(const std::string& key, const NodeRules& rules) {
  const auto [at, is_new] = rules_.try_emplace(key);
  if (is_new) {
    at->second.rules = rules;
    at->second.since = ++last_rules_;
    behind_ = true;
  }
  ++at->second.uses;
}

// Rules without a pod stay until the next topology, since pods like the last one may follow.
void ClusterModel::ReleaseRules(const std::string& key) {
  const auto at = rules_.find(key);
  CHECK(at != rules_.end() && at->second.uses > 0) << "rules are released that nobody uses";
  --at->second.uses;
}

void ClusterModel::UseResources(const Amounts& needs) {
  for (const auto& [resource, amount] : needs.others) {
    if (resource == kPodsResource || IsDeviceResource(resource)) continue;
    const bool counted = std::find(counted_.begin(), counted_.end(), resource) != counted_.end();
    if (++used_resources_[resource] == 1 && !counted) behind_ = true;
  }
}

void ClusterModel::ReleaseResources(const Amounts& needs) {
  for (const auto& [resource, amount] : needs.others) {
    if (resource == kPodsResource || IsDeviceResource(resource)) continue;
    const auto at = used_resources_.find(resource);
    CHECK(at != used_resources_.end()) << "a resource is released that nobody uses";
    if (--at->second == 0) used_resources_.erase(at);
  }
}

// Pods first; then as many of the resources that pods need as can be counted, in the order of their
// numbers, which is that of their first appearance.
void ClusterModel::ChooseCounted() {
  counted_ = {kPodsResource};
  for (const auto& [resource, uses] : used_resources_) {
    if (counted_.size() == spec::kMaxCountedResources) return;
    counted_.push_back(resource);
  }
}

std::string ClusterModel::ModelOf(const Entry& entry) const {
  const auto product = entry.node.meta.labels.find(settings_.product_label);
  std::string model = names_.name(*entry.device);
  if (product != entry.node.meta.labels.end()) model += " " + product->second;
  return model;
}

void ClusterModel::DeclareNode(const Entry& entry, KindNumbers& kinds,
                               spec::ClusterDeclaration& cluster) {
  spec::NodeKind kind;
  if (entry.device) {
    const std::string model = ModelOf(entry);
    const auto [known, is_new] = models_.try_emplace(model, static_cast<uint16_t>(models_.size()));
    if (is_new) {
      cluster.models.push_back({model, 0});
      resource_of_model_.emplace(model, *entry.device);
    }
    kind = spec::UniformKind("", known->second, static_cast<uint32_t>(entry.devices), 1, 0, 0);
  }
  kind.cpu_milli = Clamped(entry.supply.cpu_milli);
  kind.memory_mib = Clamped(entry.supply.memory_mib);
  for (size_t i = 0; i < counted_.size(); ++i) {
    const int64_t supply = names_.IsHostPort(counted_[i]) ? 1 : entry.supply.Of(counted_[i]);
    kind.counted[i] = Clamped(supply);
  }
  spec::DeclaredNode& node = cluster.nodes.emplace_back();
  node.name = entry.node.meta.name;
  const auto [at, is_new] = kinds.try_emplace(
      std::tuple(kind.model, kind.devices.size(), kind.cpu_milli, kind.memory_mib, kind.counted),
      static_cast<uint32_t>(kinds.size()));
  node.kind = at->second;
  kind.name = "kind " + std::to_string(at->second);
  if (is_new) cluster.kinds.push_back(std::move(kind));
  // From the top, so that each name contains the names above it.
  std::string path;
  for (size_t i = levels_.size(); i-- > 0;) {
    const auto value = entry.node.meta.labels.find(levels_[i]);
    path += value == entry.node.meta.labels.end() ? "/without a label: " + node.name
                                                  : "/" + value->second;
    node.domains.insert(node.domains.begin(), path.substr(1));
  }
  if (levels_.empty()) node.domains = {"all"};
  node.condition = ConditionOf(node.name);
}

// Rules are admitted in the order in which they came, as long as the nodes fall into few enough
// classes; a rule that divides them into more is rejected, and its pods wait with that reason.
void ClusterModel::DeclareClasses(spec::ClusterDeclaration& cluster) {
  std::vector<std::pair<const std::string*, Rules*>> order;
  for (auto& [key, rules] : rules_) order.emplace_back(&key, &rules);
  std::sort(order.begin(), order.end(),
            [](const auto& a, const auto& b) { return a.second->since < b.second->since; });
  std::vector<size_t> class_of(cluster.nodes.size(), 0);
  std::vector<std::string> bits = {""};  // by class, one for each rule that is admitted
  for (const auto& [key, rules] : order) {
    std::map<std::pair<size_t, bool>, size_t> divided;
    std::vector<size_t> with(class_of.size());
    std::vector<std::string> with_bits;
    for (size_t i = 0; i < cluster.nodes.size(); ++i) {
      const Node& node = nodes_.find(cluster.nodes[i].name)->second.node;
      const bool permitted = Permits(rules->rules, node);
      const auto [at, is_new] = divided.try_emplace({class_of[i], permitted}, divided.size());
      if (is_new) with_bits.push_back(bits[class_of[i]] + (permitted ? '1' : '0'));
      with[i] = at->second;
    }
    rules->rejected = divided.size() > spec::kMaxNodeClasses;
    if (rules->rejected) continue;
    class_of = std::move(with);
    bits = std::move(with_bits);
  }
  for (size_t i = 0; i < cluster.nodes.size(); ++i) {
    cluster.nodes[i].labels[kClassLabel] = bits[class_of[i]];
  }
}

Result<spec::Topology> ClusterModel::MakeTopology() {
  std::erase_if(rules_, [](const auto& entry) { return entry.second.uses == 0; });
  ChooseCounted();
  levels_.clear();
  for (const std::string& label : settings_.topology_labels) {
    const bool has = std::any_of(nodes_.begin(), nodes_.end(), [&label](const auto& entry) {
      return entry.second.node.meta.labels.contains(label);
    });
    if (has) levels_.push_back(label);
  }
  models_.clear();
  resource_of_model_.clear();
  spec::ClusterDeclaration cluster;
  cluster.levels = levels_.empty() ? std::vector<std::string>{"all"} : levels_;
  for (const ResourceId resource : counted_) cluster.counted.push_back(names_.name(resource));
  KindNumbers kinds;
  for (const auto& [name, entry] : nodes_) DeclareNode(entry, kinds, cluster);
  DeclareClasses(cluster);
  ASSIGN_OR_RETURN(spec::Topology topology, spec::Topology::Create(std::move(cluster)));
  classes_.clear();
  size_t bit = 0;
  std::vector<std::pair<uint64_t, const std::string*>> order;
  for (const auto& [key, rules] : rules_) {
    if (!rules.rejected) order.emplace_back(rules.since, &key);
  }
  std::sort(order.begin(), order.end());
  for (const auto& [since, key] : order) {
    scheduler::ClassSet& permitted = classes_[*key];
    for (size_t i = 0; i < topology.classes().size(); ++i) {
      const std::string& bits = topology.classes()[i].labels.at(kClassLabel);
      if (bits[bit] == '1') permitted.insert(static_cast<uint16_t>(i));
    }
    ++bit;
  }
  behind_ = false;
  return topology;
}

Result<scheduler::Shape> ClusterModel::ShapeOf(const Amounts& needs,
                                               const std::string& rules) const {
  scheduler::Shape shape;
  shape.cpu_milli = static_cast<int32_t>(Clamped(needs.cpu_milli));
  shape.memory_mib = static_cast<int32_t>(Clamped(needs.memory_mib));
  std::optional<ResourceId> device;
  for (const auto& [resource, amount] : needs.others) {
    const auto counted = std::find(counted_.begin(), counted_.end(), resource);
    if (counted != counted_.end()) {
      shape.counted[static_cast<size_t>(counted - counted_.begin())] =
          static_cast<int32_t>(Clamped(amount));
      continue;
    }
    const std::string& name = names_.name(resource);
    if (!IsDeviceResource(resource)) {
      std::vector<std::string> others;
      for (const ResourceId other : counted_) others.push_back(names_.name(other));
      return FailedPrecondition("it requests " + name +
                                ", and Longhaul counts four resources beside cpu, memory and "
                                "accelerators, which are now " +
                                Join(others, ", "));
    }
    if (device) {
      return FailedPrecondition("it requests accelerators of two kinds, " + names_.name(*device) +
                                " and " + name + ", which no node offers together");
    }
    if (amount > spec::kMaxDevices) {
      return FailedPrecondition("it requests " + std::to_string(amount) + " of " + name +
                                "; Longhaul knows nodes of at most " +
                                std::to_string(spec::kMaxDevices));
    }
    device = resource;
    shape.gpus = static_cast<uint8_t>(amount);
  }
  if (device) {
    shape.models = 0;
    for (const auto& [model, resource] : resource_of_model_) {
      if (resource == *device) shape.models |= uint64_t{1} << models_.at(model);
    }
    if (shape.models == 0) {
      return FailedPrecondition("no node offers " + names_.name(*device));
    }
  }
  const auto permitted = classes_.find(rules);
  if (permitted == classes_.end()) {
    return FailedPrecondition(
        "its node selector, affinity and tolerations, with those of the other pods, divide the "
        "nodes into more than " +
        std::to_string(spec::kMaxNodeClasses) + " classes");
  }
  if (permitted->second == scheduler::ClassSet{}) {
    return FailedPrecondition(
        "no node has the labels and tolerated taints that its node selector, affinity and "
        "tolerations require");
  }
  shape.classes = permitted->second;
  return shape;
}

scheduler::NodeShared ClusterModel::SharedOf(const std::string& node, const Amounts& load) const {
  scheduler::NodeShared shared;
  shared.node = node;
  shared.cpu_milli = load.cpu_milli;
  shared.memory_mib = load.memory_mib;
  for (size_t i = 0; i < counted_.size(); ++i) shared.counted[i] = load.Of(counted_[i]);
  const auto entry = nodes_.find(node);
  if (entry != nodes_.end() && entry->second.device) {
    shared.devices = load.Of(*entry->second.device) + entry->second.broken;
  }
  return shared;
}

bool ClusterModel::Holds(const std::string& node, const Amounts& use) const {
  const Amounts& supply = nodes_.find(node)->second.supply;
  const auto holds = [&](const std::pair<ResourceId, int64_t>& other) {
    const auto [resource, amount] = other;
    return amount <= (names_.IsHostPort(resource) ? 1 : supply.Of(resource));
  };
  return use.cpu_milli <= supply.cpu_milli && use.memory_mib <= supply.memory_mib &&
         std::all_of(use.others.begin(), use.others.end(), holds);
}

// A node that is not ready takes no new pods. Its pods stay where they are: Kubernetes decides
// when it gives them up.
spec::NodeCondition ClusterModel::ConditionOf(const std::string& node) const {
  const Node& of = nodes_.find(node)->second.node;
  return of.ready() && !of.unschedulable ? spec::NodeCondition::kReady
                                         : spec::NodeCondition::kCordoned;
}

std::optional<scheduler::Tier> ClusterModel::TierOf(std::string_view label) const {
  const auto found = std::find(levels_.begin(), levels_.end(), label);
  if (found == levels_.end()) return std::nullopt;
  return static_cast<scheduler::Tier>(found - levels_.begin());
}

}  // namespace longhaul::engines::kubernetes
