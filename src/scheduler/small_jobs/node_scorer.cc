#include "scheduler/small_jobs/node_scorer.h"

#include <algorithm>
#include <bit>
#include <numeric>

#include "base/check.h"

namespace longhaul::scheduler {

namespace {

constexpr uint32_t kMaxGangHosts = 4'096;  // larger gangs are not counted in holes

// What breaking a host of a domain with so many free ones costs: the share of the gang mix, by
// hosts, of which one gang less fits, floor(h / s) - floor((h - 1) / s) = [s divides h].
std::vector<int64_t> LostByFreeHosts(const std::vector<GangWeight>& gangs, int64_t scale) {
  int64_t sum = 0;
  for (const GangWeight& gang : gangs) {
    CHECK(gang.hosts >= 1 && gang.weight >= 0 && gang.weight <= kMaxMixWeight);
    sum += gang.weight * gang.hosts;
  }
  if (sum == 0 || scale == 0) return {};
  std::vector<int64_t> lost(kMaxGangHosts + 1);
  for (const GangWeight& gang : gangs) {
    const auto cost =
        static_cast<int64_t>(static_cast<__int128>(gang.weight) * gang.hosts * scale / sum);
    for (uint64_t h = gang.hosts; h <= kMaxGangHosts; h += gang.hosts) lost[h] += cost;
  }
  return lost;
}

}  // namespace

NodeScorer::NodeScorer(const State& state, const TaskMix& mix, const SmallJobPolicy& policy,
                       const std::vector<GangWeight>& gangs)
    : policy_(policy),
      table_(state, mix),
      values_(ValueGpus(SharesOf(state.shapes(), mix))),
      weight_(std::max<int64_t>(mix.typical_weight, 1)),
      packing_(int64_t{policy.packing} * kUnit * kWholeGpu / kGpuValue),
      lost_by_free_hosts_(LostByFreeHosts(gangs, policy.holes * kUnit)) {
  int64_t most_cpu = 1;
  int64_t most_gpus = 1;
  for (const spec::NodeKind& kind : state.topology().kinds()) {
    most_cpu = std::max(most_cpu, kind.cpu_milli);
    most_gpus = std::max<int64_t>(most_gpus, static_cast<int64_t>(kind.devices.size()));
  }
  // One factor kUnit more for cpu, which Score shifts out again: a thousandth of a cpu is a small
  // part of a node.
  cpu_pull_ = policy.pull_cpu * kUnit * kUnit / most_cpu;
  gpu_pull_ = policy.pull_gpus * kUnit / (most_gpus * kWholeGpu);
}

int64_t NodeScorer::HoleTerm(const State& state, NodeIndex node) const {
  if (CountGpus(state.node(node).free_gpus) != state.node(node).devices) return 0;
  int64_t lost = 0;
  // The cluster is the last level: its holes are all there is, whoever breaks one.
  for (uint32_t level = 0; level + 1 < state.topology().levels().size(); ++level) {
    const uint32_t domain = state.topology().levels()[level].domain_of_node[node];
    const uint32_t free = state.domain(level, domain).free_hosts;
    if (free < lost_by_free_hosts_.size()) lost += lost_by_free_hosts_[free];
  }
  return lost;
}

// For a fraction the best GPU of the node is tried; GPUs with equal free shares score alike, so
// each free share is tried once. Integers only, so that scores compare the same on every machine.
NodeScorer::Scored NodeScorer::Score(const State& state, NodeIndex index, const Shape& shape,
                                     int64_t fragmentation) const {
  const NodeState& node = state.node(index);
  if (!node.ready() || !FitsHost(node, shape)) return {};
  const int32_t cpu = node.free_cpu_milli - shape.cpu_milli;
  std::array<int16_t, spec::kMaxDevices> shares = node.free_share;
  const FragmentationTable::Row row = table_.RowOf(node.group, cpu);
  const auto fragmentation_after = [&] { return table_.Of(row, {shares.data(), node.devices}); };
  int64_t best = kNoFit;  // rise and packing
  GpuMask gpu = 0;
  if (shape.share > 0) {
    const GpuMask eligible = EligibleGpus(node, shape);
    std::array<uint64_t, kWholeGpu / 64 + 1> seen{};
    for (GpuMask rest = eligible; rest != 0; rest = static_cast<GpuMask>(rest & (rest - 1))) {
      const auto i = static_cast<size_t>(std::countr_zero(rest));
      const auto free = static_cast<size_t>(node.free_share[i]);
      if ((seen[free / 64] >> (free % 64) & 1) != 0) continue;
      seen[free / 64] |= uint64_t{1} << (free % 64);
      shares[i] = static_cast<int16_t>(free - shape.share);
      const int64_t loss = values_[free] - values_[free - shape.share];
      const int64_t score = kUnit * fragmentation_after() + weight_ * (loss * packing_);
      shares[i] = node.free_share[i];
      if (score >= best) continue;
      best = score;
      gpu = static_cast<GpuMask>(1u << i);
    }
    if (gpu == 0) return {};
  } else {
    if (shape.gpus > 0) {
      GpuMask eligible = EligibleGpus(node, shape);
      if (CountGpus(eligible) < shape.gpus) return {};
      for (int taken = 0; taken < shape.gpus; ++taken) {
        shares[static_cast<size_t>(std::countr_zero(eligible))] = 0;
        eligible = static_cast<GpuMask>(eligible & (eligible - 1));
      }
    }
    best = kUnit * fragmentation_after();
  }
  int64_t idle = -shape.gpu_milli();
  for (size_t i = 0; i < node.devices; ++i) idle += std::max<int16_t>(node.free_share[i], 0);
  // Others may use more of a node than it has; that is not idle.
  int64_t term = (std::max(cpu, 0) * cpu_pull_ >> 16) + idle * gpu_pull_;
  term += int64_t{policy_.health} * (1'000 - state.health(index)) * kUnit;
  if (counts_holes() && shape.needs_devices()) term += HoleTerm(state, index);
  return {best - kUnit * fragmentation + weight_ * term, gpu};
}

}  // namespace longhaul::scheduler
