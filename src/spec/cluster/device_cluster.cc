#include "spec/cluster/device_cluster.h"

#include <algorithm>
#include <array>
#include <cstdio>
#include <utility>

#include "base/text.h"
#include "spec/internal/document.h"

namespace longhaul::spec {
namespace {

using internal::Node;

constexpr double kGiga = 1e9;
constexpr double kTera = 1e12;

// What a figure means and its bounds; `set` is called with one inside them.
struct Key {
  std::string_view name;
  double low;
  double high;
  bool whole;
  void (*set)(DeviceCluster&, double);
};

constexpr auto kFigureKeys = std::to_array<Key>({
    {"devices", 1, 10'000'000, true,
     [](DeviceCluster& c, double v) { c.devices = static_cast<uint32_t>(v); }},
    {"devices_per_node", 1, 65'536, true,
     [](DeviceCluster& c, double v) { c.devices_per_node = static_cast<uint32_t>(v); }},
    {"island", 1, 65'536, true,
     [](DeviceCluster& c, double v) { c.island = static_cast<uint32_t>(v); }},
    {"memory_gib", 0.001, 100'000, false,
     [](DeviceCluster& c, double v) {
       c.device.memory = Bytes(static_cast<int64_t>(v * double(int64_t{1} << 30)));
     }},
    {"memory_gb_per_s", 0.1, 1'000'000, false,
     [](DeviceCluster& c, double v) { c.device.memory_bandwidth = BytesPerSecond(v * kGiga); }},
    {"half_tflops", 0.001, 1'000'000, false,
     [](DeviceCluster& c, double v) { c.device.half = FlopsPerSecond(v * kTera); }},
    {"island_gb_per_s", 0, 100'000, false,
     [](DeviceCluster& c, double v) { c.device.island_bandwidth = BytesPerSecond(v * kGiga); }},
    {"host_gb_per_s", 0.1, 100'000, false,
     [](DeviceCluster& c, double v) { c.device.host_bandwidth = BytesPerSecond(v * kGiga); }},
    {"power_watts", 0, 1'000'000, false,
     [](DeviceCluster& c, double v) { c.device.power_watts = v; }},
    {"dollars_per_hour", 0, 1'000'000, false,
     [](DeviceCluster& c, double v) { c.device.dollars_per_hour = v; }},
    {"network.gb_per_s", 0.001, 100'000, false,
     [](DeviceCluster& c, double v) { c.network.per_device = BytesPerSecond(v * kGiga); }},
    {"network.rails", 1, 1'024, true,
     [](DeviceCluster& c, double v) { c.network.rails = static_cast<uint32_t>(v); }},
    {"network.nodes_per_leaf", 1, 1'000'000, true,
     [](DeviceCluster& c, double v) { c.network.nodes_per_leaf = static_cast<uint32_t>(v); }},
    {"network.leaves_per_block", 1, 1'000'000, true,
     [](DeviceCluster& c, double v) { c.network.leaves_per_block = static_cast<uint32_t>(v); }},
    {"network.leaf_oversubscription", 1, 1'000, false,
     [](DeviceCluster& c, double v) { c.network.leaf_oversubscription = v; }},
    {"network.block_oversubscription", 1, 1'000, false,
     [](DeviceCluster& c, double v) { c.network.block_oversubscription = v; }},
});

constexpr auto kKinds = std::to_array<std::pair<std::string_view, NetworkKind>>({
    {"infiniband", NetworkKind::kInfiniband},
    {"roce", NetworkKind::kRoce},
    {"omnipath", NetworkKind::kOmnipath},
    {"ethernet", NetworkKind::kEthernet},
});
constexpr std::string_view kKind = "network.kind";

std::string DidYouMean(std::string_view word, const std::vector<std::string_view>& known) {
  const auto nearest = Nearest(word, known);
  if (nearest) return ", did you mean '" + std::string(*nearest) + "'?";
  std::string text = "; known are ";
  for (size_t i = 0; i < known.size(); ++i) text += (i > 0 ? ", " : "") + std::string(known[i]);
  return text;
}

Status SetKind(std::string_view value, DeviceCluster& cluster) {
  std::vector<std::string_view> words;
  for (const auto& [word, kind] : kKinds) {
    words.push_back(word);
    if (word != value) continue;
    cluster.network.kind = kind;
    return {};
  }
  return InvalidArgument("network.kind: no network named '" + Printable(value, 40) + "'" +
                         DidYouMean(value, words));
}

// What the systems of a GPU are sold with: DGX A100 200 Gb/s a GPU, Hopper and Blackwell 400 Gb/s
// (NVIDIA DGX user guides), MI300X platforms 400 Gb/s; PCIe GPUs share one of 200 Gb/s by two.
DeviceCluster AroundDevice(const Device& device) {
  DeviceCluster cluster;
  cluster.device = device;
  const bool island = device.island_bandwidth > BytesPerSecond(0);
  const bool rack = device.name.find("nvl72") != std::string::npos;
  cluster.devices_per_node = rack ? 4 : 8;
  cluster.island = rack ? 72 : island ? 8 : 1;
  const bool hopper_or_later = device.fp8 > FlopsPerSecond(0) && island;
  cluster.network.per_device = BytesPerSecond((hopper_or_later ? 50 : island ? 25 : 12.5) * kGiga);
  cluster.network.rails = cluster.devices_per_node;
  return cluster;
}

Status ReadNode(const Node& node, const std::string& prefix, std::string_view source,
                DeviceCluster& cluster) {
  for (const Node& child : node.children) {
    const std::string key = prefix + child.key;
    const std::string place = std::string(source) + ":" + std::to_string(child.key_line);
    if (key == "device") continue;
    if (key == "network" && child.kind == Node::Kind::kMap) {
      RETURN_IF_ERROR(ReadNode(child, "network.", source, cluster));
      continue;
    }
    if (child.kind != Node::Kind::kScalar) {
      return InvalidArgument(place + ": " + Printable(key, 60) + " must be one value");
    }
    const Status status = SetClusterKey(key, child.text, cluster);
    if (!status.ok()) return InvalidArgument(place + ": " + status.message());
  }
  return {};
}

}  // namespace

std::vector<std::string_view> ClusterKeys() {
  std::vector<std::string_view> names;
  for (const Key& key : kFigureKeys) names.push_back(key.name);
  names.push_back(kKind);
  return names;
}

Status SetClusterKey(std::string_view key, std::string_view value, DeviceCluster& cluster) {
  if (key == kKind) return SetKind(value, cluster);
  const auto found = std::find_if(kFigureKeys.begin(), kFigureKeys.end(),
                                  [key](const Key& each) { return each.name == key; });
  if (found == kFigureKeys.end()) {
    return NotFound("no figure named '" + Printable(key, 40) + "'" +
                    DidYouMean(key, ClusterKeys()));
  }
  const Result<double> number = ParseDouble(value);
  // Clamped first: the conversion of a number that does not fit is undefined.
  const bool whole =
      number.ok() &&
      *number == static_cast<double>(static_cast<int64_t>(std::clamp(*number, -1e15, 1e15)));
  if (!number.ok() || *number < found->low || *number > found->high || (found->whole && !whole)) {
    char bounds[80];
    std::snprintf(bounds, sizeof bounds, "%.10g to %.10g", found->low, found->high);
    return InvalidArgument(std::string(key) + ": '" + Printable(value, 40) + "' is not a " +
                           (found->whole ? "whole number" : "number") + " from " + bounds);
  }
  found->set(cluster, *number);
  return {};
}

Result<DeviceCluster> ParseClusterName(std::string_view text) {
  const size_t colon = text.find(':');
  ASSIGN_OR_RETURN(const Device device, FindDevice(text.substr(0, colon)));
  DeviceCluster cluster = AroundDevice(device);
  cluster.devices = cluster.devices_per_node;
  if (colon != std::string_view::npos) {
    const Result<uint64_t> count = ParseUint64(text.substr(colon + 1));
    if (!count.ok() || *count < 1 || *count > 10'000'000) {
      return InvalidArgument("cluster '" + Printable(text, 60) +
                             "': after the colon stands the number of devices, 1 to 10,000,000, "
                             "as in h100-sxm:1024");
    }
    cluster.devices = static_cast<uint32_t>(*count);
  }
  // Fewer devices than a node has are a part of one.
  cluster.devices_per_node = std::min(cluster.devices_per_node, cluster.devices);
  cluster.island = std::min(cluster.island, cluster.devices);
  RETURN_IF_ERROR(CheckDeviceCluster(cluster));
  return cluster;
}

Result<DeviceCluster> ParseDeviceCluster(std::string_view text, std::string_view source) {
  ASSIGN_OR_RETURN(const Node root, internal::ParseDocument(text, source));
  if (root.kind != Node::Kind::kMap) {
    return InvalidArgument(std::string(source) +
                           ": a cluster is a map, such as 'device: h100-sxm'");
  }
  const Node* device = internal::Find(root, "device");
  const Node* devices = internal::Find(root, "devices");
  if (device == nullptr || device->kind != Node::Kind::kScalar || devices == nullptr) {
    return InvalidArgument(std::string(source) + ": a cluster needs 'device' and 'devices'");
  }
  Result<Device> found = FindDevice(device->text);
  if (!found.ok()) {
    return InvalidArgument(std::string(source) + ":" + std::to_string(device->line) + ": " +
                           found.status().message());
  }
  DeviceCluster cluster = AroundDevice(*found);
  RETURN_IF_ERROR(ReadNode(root, "", source, cluster));
  const Status sound = CheckDeviceCluster(cluster);
  if (!sound.ok()) return sound.WithContext(source);
  return cluster;
}

}  // namespace longhaul::spec
