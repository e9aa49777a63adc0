#include "planner/time/collective_cost.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <string_view>

namespace longhaul::planner {
namespace {

// Bytes through one GPU's link inside an island, as seconds.
double IslandSeconds(const Links& links, Collective collective, double bytes, double ranks) {
  const bool reduce = collective == Collective::kAllReduce;
  const double passes = reduce ? 2 : 1;
  const double through = passes * bytes * (ranks - 1) / ranks;
  // In-switch reduction needs more than two GPUs to pay.
  const double rate =
      reduce && ranks > 2 ? links.island_reduce_bytes_per_s : links.island_bytes_per_s;
  const double hops = collective == Collective::kAllToAll ? 0.3 : passes;
  const double latency = links.island_latency_s + hops * links.island_hop_s * (ranks - 2);
  return latency + (through + links.island_root_bytes * std::sqrt(through)) / rate;
}

// A group over several islands. Within an island all members send at once, so the ring's rate is
// that of all their network cards together, but no more than a link inside. An all-reduce takes the
// faster of ring and tree: the tree has fewer hops for small messages.
double AcrossSeconds(const Links& links, Collective collective, double bytes, Group group) {
  const double ranks = group.ranks;
  const double members = IslandMembers(links, group);
  const double islands = std::ceil(ranks / members);
  const double span = ranks * group.stride;
  const double share = span > links.leaf ? links.leaf_oversubscription : 1;
  const double nic = links.network_bytes_per_s / share;
  if (collective == Collective::kAllToAll) {
    const double leaving = bytes * (ranks - members) / ranks / nic;
    const double inside = bytes * (members - 1) / ranks / links.island_bytes_per_s;
    return links.network_hop_s * (1 + std::log2(islands)) + std::max(leaving, inside);
  }
  const double passes = collective == Collective::kAllReduce ? 2 : 1;
  const double through = passes * bytes * (ranks - 1) / ranks;
  const double rate = std::min(links.island_bytes_per_s, members * nic);
  const double inner_hops = passes * (ranks - islands) * links.island_hop_s;
  const double ring = inner_hops + passes * (islands - 1) * links.network_hop_s + through / rate;
  if (collective != Collective::kAllReduce) return ring;
  const double depth = std::log2(islands) * links.network_hop_s + members * links.island_hop_s;
  const double tree = 2 * depth + through / (0.92 * rate);
  return std::min(ring, tree);
}

}  // namespace

Links ShippedLinks(const spec::DeviceCluster& cluster) {
  const spec::Device& device = cluster.device;
  Links links;
  // Fitted to aiconfigurator's NCCL tables (comm/nccl at 095f58a51c) at 8 GPUs, as shares of the
  // link: A100 225 of 300, H100 355 of 450, B200 745 of 900 GB/s; all-reduce in the switch 496 and
  // 803 GB/s. PCIe GPUs: a ring through the host.
  const double link = device.island_bandwidth.count();
  const bool island = link > 0;
  // NVLink's switches reduce since Hopper; xGMI joins its GPUs without one.
  const bool switched = island && device.fp8.count() > 0 && !device.name.starts_with("mi");
  links.island_bytes_per_s = island ? 0.753 * link : 0.7 * device.host_bandwidth.count();
  links.island_reduce_bytes_per_s =
      switched ? 0.966 * std::min(1.08 * link, 0.92 * link + 80e9) : links.island_bytes_per_s;
  links.island_root_bytes = 2.2e3 * (link >= 800e9 ? 1.7 : 1);
  links.island_latency_s = switched ? 6e-6 : 9e-6;
  links.island_hop_s = 1.0e-6;
  links.island = std::max(1u, island ? cluster.island : cluster.devices_per_node);
  // 46-48 of 50 GB/s are seen on InfiniBand; RoCE loses 5-10 % more to unequal paths.
  double seen = 0.796;
  if (cluster.network.kind == spec::NetworkKind::kInfiniband) seen = 0.866;
  if (cluster.network.kind == spec::NetworkKind::kOmnipath) seen = 0.654;
  links.network_bytes_per_s = seen * cluster.network.per_device.count();
  links.network_hop_s = cluster.network.kind == spec::NetworkKind::kInfiniband ? 6e-6 : 8e-6;
  links.leaf = cluster.network.nodes_per_leaf * cluster.devices_per_node;
  links.leaf_oversubscription = std::max(1.0, cluster.network.leaf_oversubscription);
  return links;
}

uint32_t IslandMembers(const Links& links, Group group) {
  const uint32_t stride = std::max(1u, group.stride);
  return std::clamp(links.island / stride, 1u, std::max(1u, group.ranks));
}

namespace {

// With the group as it lies.
double PlacedSeconds(const Links& links, Collective collective, double bytes, Group group) {
  const uint32_t members = IslandMembers(links, group);
  if (collective == Collective::kSend) {
    // Of a ring the slowest hop decides.
    return members >= group.ranks ? links.island_latency_s + bytes / links.island_bytes_per_s
                                  : links.network_hop_s + bytes / links.network_bytes_per_s;
  }
  if (members >= group.ranks) return IslandSeconds(links, collective, bytes, group.ranks);
  return AcrossSeconds(links, collective, bytes, group);
}

}  // namespace

double CollectiveSeconds(const Links& links, Collective collective, double bytes, Group group) {
  if (group.ranks <= 1 || bytes <= 0) return 0;
  if (!links.any_placement) return PlacedSeconds(links, collective, bytes, group);
  // The smallest stride of each number of members that an island can have of the group.
  // Costs depend on the stride by the number of members in an island alone, or else grow with it.
  // So the candidates are few, not all strides.
  double best = std::numeric_limits<double>::infinity();
  for (uint32_t stride = 1; stride <= links.island;) {
    best = std::min(best, PlacedSeconds(links, collective, bytes, {group.ranks, stride}));
    stride = links.island / (links.island / stride) + 1;
  }
  return std::min(best, PlacedSeconds(links, collective, bytes, {group.ranks, links.island + 1}));
}

}  // namespace longhaul::planner
