#include "spec/cluster/cluster_file.h"

#include <algorithm>
#include <limits>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/text.h"
#include "spec/internal/document.h"

namespace longhaul::spec {

namespace {

using internal::Find;
using internal::Node;

constexpr size_t kMaxName = 63;    // a DNS label, as Kubernetes requires
constexpr size_t kMaxLabels = 16;  // of one node; times 65,536 nodes
constexpr uint64_t kMaxAmount = std::numeric_limits<int32_t>::max();

const std::vector<std::string_view> kRootKeys = {"cluster", "levels", "counted", "groupings",
                                                 "models",  "kinds",  "nodes"};
const std::vector<std::string_view> kModelKeys = {"memory"};
const std::vector<std::string_view> kKindKeys = {"model",      "devices", "islands", "rails",
                                                 "numa_nodes", "cpu",     "memory",  "counted"};
const std::vector<std::string_view> kNodeKeys = {"kind",  "name",  "prefix", "at",     "each",
                                                 "hosts", "every", "labels", "taints", "condition"};

// "80GiB" in MiB; nothing when it isn't a size of whole MiB that fits 64 bits.
std::optional<uint64_t> SizeInMiB(std::string_view text) {
  constexpr std::pair<std::string_view, uint64_t> kUnits[] = {
      {"MiB", 1}, {"GiB", 1'024}, {"TiB", 1'024 * 1'024}};
  for (const auto& [unit, mib] : kUnits) {
    if (!text.ends_with(unit)) continue;
    const Result<uint64_t> number = ParseUint64(text.substr(0, text.size() - unit.size()));
    if (!number.ok() || *number > std::numeric_limits<uint64_t>::max() / mib) return std::nullopt;
    return *number * mib;
  }
  return std::nullopt;
}

// "2.5" in thousandths: 2500; at most three decimals.
std::optional<uint64_t> Thousandths(std::string_view text) {
  const size_t point = text.find('.');
  std::string digits(text.substr(0, point));
  std::string decimals(point == std::string_view::npos ? "" : text.substr(point + 1));
  if (digits.empty() || decimals.size() > 3) return std::nullopt;
  if (point != std::string_view::npos && decimals.empty()) return std::nullopt;
  decimals.resize(3, '0');
  const Result<uint64_t> number = ParseUint64(digits + decimals);
  if (!number.ok()) return std::nullopt;
  return *number;
}

// The first mistake ends the reading and names its line. The order of the parts is that of their
// references: models, kinds, nodes.
class ClusterFileReader {
 public:
  explicit ClusterFileReader(std::string_view source) : source_(source) {}

  Result<ClusterDeclaration> Read(const Node& root) {
    if (root.kind != Node::Kind::kMap) return Refuse(root.line, "expected a map with 'nodes'");
    RETURN_IF_ERROR(RefuseUnknown(root, kRootKeys));
    if (const Node* name = Find(root, "cluster")) {
      ASSIGN_OR_RETURN(cluster_.name, Text(*name));
    }
    if (const Node* levels = Find(root, "levels")) {
      ASSIGN_OR_RETURN(cluster_.levels, Texts(*levels));
    }
    if (const Node* counted = Find(root, "counted")) {
      ASSIGN_OR_RETURN(cluster_.counted, Texts(*counted));
    }
    if (const Node* groupings = Find(root, "groupings")) {
      ASSIGN_OR_RETURN(cluster_.groupings, Texts(*groupings));
    }
    if (cluster_.levels.empty() || cluster_.levels.size() > kMaxLevels ||
        cluster_.counted.size() > kMaxCountedResources) {
      return Refuse(root.line, "a cluster has 1 to 4 levels and at most 4 counted resources");
    }
    RETURN_IF_ERROR(ReadModels(root));
    RETURN_IF_ERROR(ReadKinds(root));
    RETURN_IF_ERROR(ReadNodes(root));
    // Created only for its checks: what Create refuses must be an error of the file, with its name.
    const auto topology = Topology::Create(cluster_);
    if (!topology.ok()) return topology.status().WithContext(source_);
    return std::move(cluster_);
  }

 private:
  using Counts = std::vector<std::pair<std::string, uint64_t>>;

  Status Refuse(int line, const std::string& why) const {
    return InvalidArgument(source_ + ":" + std::to_string(line) + ": " + why);
  }

  Status RefuseUnknown(const Node& map, const std::vector<std::string_view>& known) const {
    for (const Node& child : map.children) {
      if (std::find(known.begin(), known.end(), child.key) != known.end()) continue;
      const auto nearest = Nearest(child.key, known);
      return Refuse(child.key_line,
                    "unknown key '" + Printable(child.key, 40) + "'" +
                        (nearest ? ": did you mean '" + std::string(*nearest) + "'?"
                                 : "; known here: " + Join({known.begin(), known.end()}, ", ")));
    }
    return {};
  }

  Result<std::string> Text(const Node& node) const {
    if (node.kind != Node::Kind::kScalar || node.text.empty() || node.text.size() > kMaxName ||
        node.text.find('\0') != std::string::npos) {
      return Refuse(node.line,
                    node.key + (node.key.empty() ? "" : " ") + "must be a text of 1 to 63 bytes");
    }
    return node.text;
  }

  Result<std::vector<std::string>> Texts(const Node& list) const {
    if (list.kind != Node::Kind::kList) {
      return Refuse(list.line, list.key + " must be a list such as [one, two]");
    }
    std::vector<std::string> texts;
    for (const Node& item : list.children) {
      ASSIGN_OR_RETURN(texts.emplace_back(), Text(item));
    }
    return texts;
  }

  Result<std::vector<std::pair<std::string, std::string>>> TextMap(const Node& map) const {
    if (map.kind != Node::Kind::kMap) {
      return Refuse(map.line, map.key + " must be a map such as {key: value}");
    }
    std::vector<std::pair<std::string, std::string>> pairs;
    for (const Node& child : map.children) {
      ASSIGN_OR_RETURN(std::string text, Text(child));
      pairs.emplace_back(child.key, std::move(text));
    }
    return pairs;
  }

  // A quoted number is a text, as in YAML, and is refused.
  Result<uint64_t> Whole(const Node& node, uint64_t min, uint64_t max) const {
    const Result<uint64_t> number = ParseUint64(node.text);
    if (node.kind != Node::Kind::kScalar || node.quoted || !number.ok() || *number < min ||
        *number > max) {
      return Refuse(node.line, node.key + " must be a whole number from " +
                                   WithThousands(static_cast<int64_t>(min)) + " to " +
                                   WithThousands(static_cast<int64_t>(max)) + ", not '" +
                                   Printable(node.text, 40) + "'");
    }
    return *number;
  }
  Result<uint64_t> WholeOr(const Node& map, std::string_view key, uint64_t absent, uint64_t min,
                           uint64_t max) const {
    const Node* node = Find(map, key);
    if (node == nullptr) return absent;
    return Whole(*node, min, max);
  }

  Result<int64_t> Memory(const Node& node) const {
    const auto mib = SizeInMiB(node.text);
    if (node.kind != Node::Kind::kScalar || !mib || *mib > kMaxAmount) {
      return Refuse(node.line, node.key +
                                   " must be a size such as 80GiB (whole MiB, at most "
                                   "2,047TiB), not '" +
                                   Printable(node.text, 40) + "'");
    }
    return static_cast<int64_t>(*mib);
  }

  Status ReadModels(const Node& root) {
    const Node* models = Find(root, "models");
    if (models == nullptr) return {};
    if (models->kind != Node::Kind::kMap) return Refuse(models->line, "models must be a map");
    for (const Node& item : models->children) {
      DeviceModel model{item.key, 0};
      if (item.kind != Node::Kind::kNull && item.kind != Node::Kind::kMap) {
        return Refuse(item.line, "a model is a map such as {memory: 80GiB}");
      }
      RETURN_IF_ERROR(RefuseUnknown(item, kModelKeys));
      if (const Node* memory = Find(item, "memory")) {
        ASSIGN_OR_RETURN(model.memory_mib, Memory(*memory));
      }
      cluster_.models.push_back(std::move(model));
    }
    return {};
  }

  Status ReadKinds(const Node& root) {
    const Node* kinds = Find(root, "kinds");
    if (kinds == nullptr || kinds->kind != Node::Kind::kMap) {
      return Refuse(kinds == nullptr ? root.line : kinds->line,
                    "'kinds' must be a map of node kinds");
    }
    for (const Node& item : kinds->children) {
      if (item.kind != Node::Kind::kMap) return Refuse(item.line, "a node kind is a map of keys");
      RETURN_IF_ERROR(RefuseUnknown(item, kKindKeys));
      ASSIGN_OR_RETURN(cluster_.kinds.emplace_back(), ReadKind(item));
    }
    return {};
  }

  Result<NodeKind> ReadKind(const Node& item) const {
    NodeKind kind;
    kind.name = item.key;
    RETURN_IF_ERROR(ReadDevices(item, kind));
    if (const Node* cpu = Find(item, "cpu")) {
      const auto milli = Thousandths(cpu->text);
      if (cpu->kind != Node::Kind::kScalar || !milli || *milli > kMaxAmount) {
        return Refuse(cpu->line,
                      "cpu must be a number of cores such as 96 or 0.5 (at most three "
                      "decimals, below 2,147,483), not '" +
                          Printable(cpu->text, 40) + "'");
      }
      kind.cpu_milli = static_cast<int64_t>(*milli);
    }
    if (const Node* memory = Find(item, "memory")) {
      ASSIGN_OR_RETURN(kind.memory_mib, Memory(*memory));
    }
    const Node* counted = Find(item, "counted");
    if (counted == nullptr) return kind;
    if (counted->kind != Node::Kind::kMap) return Refuse(counted->line, "counted must be a map");
    for (const Node& child : counted->children) {
      const auto found = std::find(cluster_.counted.begin(), cluster_.counted.end(), child.key);
      if (found == cluster_.counted.end()) {
        return Refuse(child.key_line,
                      "'" + Printable(child.key, 40) + "' is not in the cluster's list 'counted'");
      }
      ASSIGN_OR_RETURN(const uint64_t amount, Whole(child, 0, kMaxAmount));
      kind.counted[static_cast<size_t>(found - cluster_.counted.begin())] =
          static_cast<int64_t>(amount);
    }
    return kind;
  }

  // Devices are divided in their order into islands, rails and NUMA nodes: contiguous groups whose
  // sizes differ by at most one.
  Status ReadDevices(const Node& item, NodeKind& kind) const {
    ASSIGN_OR_RETURN(const uint64_t devices, WholeOr(item, "devices", 0, 0, kMaxDevices));
    if (devices == 0) {
      for (const char* key : {"model", "islands", "rails", "numa_nodes"}) {
        const Node* node = Find(item, key);
        if (node != nullptr) return Refuse(node->key_line, std::string(key) + " needs 'devices'");
      }
      return {};
    }
    const Node* model = Find(item, "model");
    if (model == nullptr) return Refuse(item.key_line, "a kind with devices needs their 'model'");
    const auto found = std::find_if(cluster_.models.begin(), cluster_.models.end(),
                                    [&](const DeviceModel& m) { return m.name == model->text; });
    if (found == cluster_.models.end()) {
      return Refuse(model->line, "the model '" + Printable(model->text, 40) +
                                     "' is not among the cluster's 'models'");
    }
    kind.model = static_cast<uint16_t>(found - cluster_.models.begin());
    ASSIGN_OR_RETURN(const uint64_t islands, WholeOr(item, "islands", 1, 1, devices));
    ASSIGN_OR_RETURN(const uint64_t rails, WholeOr(item, "rails", devices, 1, devices));
    ASSIGN_OR_RETURN(const uint64_t numa_nodes,
                     WholeOr(item, "numa_nodes", std::min<uint64_t>(2, devices), 1, devices));
    for (uint64_t i = 0; i < devices; ++i) {
      kind.devices.push_back({static_cast<uint8_t>(i * islands / devices),
                              static_cast<uint8_t>(i * rails / devices),
                              static_cast<uint8_t>(i * numa_nodes / devices)});
    }
    return {};
  }

  Status ReadNodes(const Node& root) {
    const Node* nodes = Find(root, "nodes");
    if (nodes == nullptr) return Refuse(root.line, "lacks the list 'nodes'");
    if (nodes->kind != Node::Kind::kList) return Refuse(nodes->line, "nodes must be a list");
    for (const Node& item : nodes->children) {
      if (item.kind != Node::Kind::kMap) return Refuse(item.line, "nodes are maps of keys");
      RETURN_IF_ERROR(RefuseUnknown(item, kNodeKeys));
      RETURN_IF_ERROR(ReadNodeEntry(item));
    }
    return {};
  }

  // What an entry's nodes have in common.
  Result<DeclaredNode> ReadPattern(const Node& item) const {
    DeclaredNode node;
    const Node* kind = Find(item, "kind");
    if (kind == nullptr) return Refuse(item.line, "nodes need a 'kind'");
    const auto found = std::find_if(cluster_.kinds.begin(), cluster_.kinds.end(),
                                    [&](const NodeKind& k) { return k.name == kind->text; });
    if (found == cluster_.kinds.end()) {
      return Refuse(kind->line, "the kind '" + Printable(kind->text, 40) +
                                    "' is not among the cluster's 'kinds'");
    }
    node.kind = static_cast<uint32_t>(found - cluster_.kinds.begin());
    if (const Node* labels = Find(item, "labels")) {
      ASSIGN_OR_RETURN(const auto pairs, TextMap(*labels));
      node.labels.insert(pairs.begin(), pairs.end());
    }
    if (const Node* taints = Find(item, "taints")) {
      ASSIGN_OR_RETURN(const auto texts, Texts(*taints));
      node.taints.insert(texts.begin(), texts.end());
    }
    if (node.labels.size() > kMaxLabels || node.taints.size() > kMaxLabels) {
      return Refuse(item.line, "a node has at most 16 labels and 16 taints");
    }
    if (const Node* condition = Find(item, "condition")) {
      const auto known = NodeConditionFrom(condition->text);
      if (!known) {
        return Refuse(condition->line,
                      "condition must be ready, cordoned, draining, suspect, "
                      "down or spare, not '" +
                          Printable(condition->text, 40) + "'");
      }
      node.condition = *known;
    }
    return node;
  }

  // By level, lowest first: a fixed name from `at`, how many new ones from `each`, or neither.
  struct Place {
    std::string name;
    uint64_t count = 0;
  };

  Result<std::vector<Place>> ReadPlaces(const Node& item) const {
    std::vector<Place> places(cluster_.levels.size());
    if (const Node* at = Find(item, "at")) {
      ASSIGN_OR_RETURN(const auto names, TextMap(*at));
      for (const auto& [level, name] : names) {
        ASSIGN_OR_RETURN(const size_t index, LevelIndex(*at, level));
        places[index].name = name;
      }
    }
    const Node* each = Find(item, "each");
    if (each == nullptr) return places;
    if (each->kind != Node::Kind::kMap) return Refuse(each->line, "each must be a map");
    for (const Node& child : each->children) {
      ASSIGN_OR_RETURN(const size_t index, LevelIndex(*each, child.key));
      if (!places[index].name.empty()) {
        return Refuse(child.key_line, child.key + " is in both 'at' and 'each'");
      }
      ASSIGN_OR_RETURN(places[index].count, Whole(child, 1, kMaxTopologyNodes));
    }
    for (size_t level = 0; level + 1 < places.size(); ++level) {
      const bool named = !places[level].name.empty();
      // A domain has one parent, so one with a fixed name cannot be below several new ones.
      const bool many_above = places[level + 1].count > 0;
      if (named && many_above) {
        return Refuse(each->line,
                      cluster_.levels[level] + " '" + Printable(places[level].name, 40) +
                          "' can't lie in several domains of level " + cluster_.levels[level + 1]);
      }
    }
    return places;
  }

  Result<size_t> LevelIndex(const Node& map, const std::string& name) const {
    const auto found = std::find(cluster_.levels.begin(), cluster_.levels.end(), name);
    if (found == cluster_.levels.end()) {
      return Refuse(map.line, "'" + Printable(name, 40) + "' is no level; the levels are " +
                                  Join(cluster_.levels, ", "));
    }
    return static_cast<size_t>(found - cluster_.levels.begin());
  }

  Status ReadNodeEntry(const Node& item) {
    ASSIGN_OR_RETURN(const DeclaredNode pattern, ReadPattern(item));
    ASSIGN_OR_RETURN(const std::vector<Place> places, ReadPlaces(item));
    ASSIGN_OR_RETURN(const uint64_t hosts, WholeOr(item, "hosts", 1, 1, kMaxTopologyNodes));
    ASSIGN_OR_RETURN(const Counts runs, ReadRuns(item));
    uint64_t count = hosts;
    for (const Place& place : places) {
      // Both factors are at most 2^16 + 1, so the product can't overflow.
      count = std::min<uint64_t>(count * std::max<uint64_t>(place.count, 1), kMaxTopologyNodes + 1);
    }
    if (count > kMaxTopologyNodes || cluster_.nodes.size() + count > kMaxTopologyNodes) {
      return Refuse(item.line, "more than " + WithThousands(kMaxTopologyNodes) + " nodes");
    }
    const Node* name = Find(item, "name");
    const Node* prefix = Find(item, "prefix");
    if (name != nullptr && (count > 1 || prefix != nullptr)) {
      return Refuse(name->line, "a name is for one node; give many a 'prefix'");
    }
    std::string first = "node-";
    if (name != nullptr) {
      ASSIGN_OR_RETURN(first, Text(*name));
    } else if (prefix != nullptr) {
      ASSIGN_OR_RETURN(first, Text(*prefix));
    }
    AddNodes(pattern, places, count, hosts, runs, first, name != nullptr);
    return {};
  }

  Result<Counts> ReadRuns(const Node& item) const {
    Counts runs;
    const Node* every = Find(item, "every");
    if (every == nullptr) return runs;
    if (every->kind != Node::Kind::kMap || every->children.size() > kMaxGroupings) {
      return Refuse(every->line, "every must be a map such as {nvlink_domain: 18}, of at most 4");
    }
    for (const Node& child : every->children) {
      ASSIGN_OR_RETURN(const uint64_t length, Whole(child, 1, kMaxTopologyNodes));
      runs.emplace_back(child.key, length);
    }
    return runs;
  }

  // Node `i` of the entry is in group i / hosts of the lowest level. Each level that makes new
  // domains divides that number by how many of them one domain above holds. Numbers continue over
  // the entries of a file, so the starts are copied before the entry changes them. Runs count
  // nodes, independent of the domains.
  void AddNodes(const DeclaredNode& pattern, const std::vector<Place>& places, uint64_t count,
                uint64_t hosts, const Counts& runs, const std::string& first, bool whole_name) {
    const std::map<std::string, uint64_t> begun = next_number_;
    for (uint64_t i = 0; i < count; ++i) {
      DeclaredNode node = pattern;
      node.name = whole_name ? first : first + std::to_string(++next_number_["name " + first]);
      uint64_t index = i / hosts;
      for (size_t level = 0; level < places.size(); ++level) {
        // New domains are numbered through the file, lowest level fastest.
        const std::string key = "level " + cluster_.levels[level];
        const auto start = begun.find(key);
        const uint64_t number = (start == begun.end() ? 0 : start->second) + index + 1;
        if (places[level].count > 0) {
          node.domains.push_back(cluster_.levels[level] + "-" + std::to_string(number));
          next_number_[key] = number;
          index /= places[level].count;
        } else {
          node.domains.push_back(places[level].name);
        }
      }
      for (const auto& [label, length] : runs) {
        const std::string key = "run " + label;
        const auto start = begun.find(key);
        const uint64_t number = (start == begun.end() ? 0 : start->second) + i / length + 1;
        node.labels[label] = label + "-" + std::to_string(number);
        next_number_[key] = number;
      }
      cluster_.nodes.push_back(std::move(node));
    }
  }

  const std::string source_;
  ClusterDeclaration cluster_;
  std::map<std::string, uint64_t> next_number_;  // last used, of names, domains and runs
};

}  // namespace

Result<ClusterDeclaration> ParseClusterFile(std::string_view text, std::string_view source) {
  ASSIGN_OR_RETURN(const Node root, internal::ParseDocument(text, source));
  return ClusterFileReader(source).Read(root);
}

}  // namespace longhaul::spec
