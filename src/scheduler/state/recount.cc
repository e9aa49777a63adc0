#include "scheduler/state/recount.h"

#include <algorithm>
#include <cstring>

namespace longhaul::scheduler {

NodeState EmptyNode(const spec::Topology& topology, NodeIndex index, GroupIndex group) {
  const spec::NodeKind& kind = topology.kind_of(index);
  NodeState node;
  node.group = group;
  node.condition = topology.node(index).condition;
  node.devices = static_cast<uint8_t>(kind.devices.size());
  node.free_cpu_milli = static_cast<int32_t>(kind.cpu_milli);
  node.free_memory_mib = static_cast<int32_t>(kind.memory_mib);
  for (size_t i = 0; i < kind.counted.size(); ++i) {
    node.free_counted[i] = static_cast<int32_t>(kind.counted[i]);
  }
  for (size_t i = 0; i < kind.devices.size(); ++i) {
    node.free_share[i] = kWholeGpu;
    node.free_gpu_memory_mib[i] = static_cast<int32_t>(topology.models()[kind.model].memory_mib);
  }
  node.free_gpus = static_cast<GpuMask>((1u << node.devices) - 1);
  return node;
}

std::vector<std::vector<DomainCounters>> CountDomains(const spec::Topology& topology,
                                                      std::span<const NodeState> nodes,
                                                      Forest forest) {
  const bool groupings = forest == Forest::kGroupings;
  std::vector<std::vector<DomainCounters>> counted;
  const size_t forests = groupings ? topology.groupings().size() : topology.levels().size();
  for (size_t i = 0; i < forests; ++i) {
    const spec::Level& level = groupings ? topology.groupings()[i].level : topology.levels()[i];
    std::vector<DomainCounters> domains(level.domains.size());
    for (NodeIndex n = 0; n < nodes.size(); ++n) {
      if (!nodes[n].ready()) continue;
      DomainCounters& counters = domains[level.domain_of_node[n]];
      uint32_t whole = 0;
      for (uint32_t d = 0; d < nodes[n].devices; ++d) {
        counters.free_milli += std::max<int16_t>(nodes[n].free_share[d], 0);
        whole += nodes[n].free_share[d] == kWholeGpu ? 1 : 0;
      }
      counters.free_gpus += whole;
      counters.free_hosts += whole > 0 && whole == nodes[n].devices ? 1 : 0;
      ++counters.ready_hosts;
      ++counters.hosts_with[whole];
    }
    counted.push_back(std::move(domains));
  }
  return counted;
}

namespace {

void CompareCounters(const State& state, Forest forest, std::string& differences) {
  const bool groupings = forest == Forest::kGroupings;
  auto counted = CountDomains(state.topology(), state.nodes(), forest);
  for (size_t i = 0; i < counted.size(); ++i) {
    const auto kept = groupings ? state.grouping(static_cast<uint32_t>(i))
                                : state.level(static_cast<uint32_t>(i));
    for (size_t d = 0; d < kept.size(); ++d) {
      counted[i][d].version = kept[d].version;
      if (kept[d] == counted[i][d]) continue;
      differences += std::string(groupings ? "grouping " : "level ") + std::to_string(i) +
                     ", domain " + std::to_string(d) + ": counters are not a recount's\n";
    }
  }
}

}  // namespace

// Computes every node from its tasks alone and compares it byte by byte, which is possible as
// NodeState has no gaps.
std::string Recount(const State& state) {
  std::string differences;
  CompareCounters(state, Forest::kNetwork, differences);
  CompareCounters(state, Forest::kGroupings, differences);
  std::vector<NodeState> fresh;
  for (NodeIndex n = 0; n < state.size(); ++n) {
    fresh.push_back(EmptyNode(state.topology(), n, state.node(n).group));
  }
  uint32_t tasks = 0;
  for (NodeIndex n = 0; n < state.size(); ++n) {
    NodeState& node = fresh[n];
    for (TaskSlot slot = state.newest_task(n); slot != kNoTask;
         slot = state.task(slot).older, ++tasks) {
      const TaskRecord& record = state.task(slot);
      const Shape& shape = state.shape(record.shape);
      node.free_cpu_milli -= shape.cpu_milli;
      node.free_memory_mib -= shape.memory_mib;
      for (size_t i = 0; i < shape.counted.size(); ++i) node.free_counted[i] -= shape.counted[i];
      for (uint32_t d = 0; d < node.devices; ++d) {
        if ((record.gpus >> d & 1) == 0) continue;
        const int share = shape.gpus > 0 ? kWholeGpu : shape.share;
        node.free_share[d] = static_cast<int16_t>(node.free_share[d] - share);
        node.free_gpu_memory_mib[d] -=
            shape.gpus > 0 ? EmptyNode(state.topology(), n, 0).free_gpu_memory_mib[d]
                           : shape.gpu_memory_mib;
        if (node.free_share[d] < 0) differences += "a device is over capacity\n";
      }
    }
    node.condition = state.node(n).condition;
    node.unhealthy = state.node(n).unhealthy;
    node.free_cpu_milli -= state.use(n).cpu_milli;
    node.free_memory_mib -= state.use(n).memory_mib;
    for (size_t i = 0; i < state.use(n).counted.size(); ++i) {
      node.free_counted[i] -= state.use(n).counted[i];
    }
    node.free_gpus = 0;
    for (uint32_t d = 0; d < node.devices; ++d) {
      const int lost = (node.unhealthy >> d & 1) != 0 ? kWholeGpu : 0;
      const int used = (state.use(n).gpus >> d & 1) != 0 ? kWholeGpu : 0;
      if (used > 0 && node.free_share[d] < kWholeGpu) differences += "others use a held device\n";
      node.free_share[d] = static_cast<int16_t>(node.free_share[d] - lost - used);
      const unsigned whole = node.free_share[d] == kWholeGpu ? 1 : 0;
      node.free_gpus = static_cast<GpuMask>(node.free_gpus | whole << d);
    }
    if (std::memcmp(&node, &state.node(n), sizeof node) != 0) {
      differences += "node " + state.topology().node(n).name + " is not what its tasks leave\n";
    }
  }
  if (tasks != state.task_count()) differences += "the count of tasks is wrong\n";
  return differences;
}

}  // namespace longhaul::scheduler
