#include "scheduler/replay/rival_rules.h"

#include <algorithm>
#include <bit>
#include <cmath>

namespace longhaul::scheduler {

namespace {

// The GPUs that a task may take here: each eligible one for a fraction, else one set.
std::vector<GpuMask> Ways(const State& state, NodeIndex node, ShapeId shape) {
  if (state.shape(shape).share == 0) return {state.ChooseGpus(node, shape)};
  std::vector<GpuMask> ways;
  GpuMask rest = EligibleGpus(state.node(node), state.shape(shape));
  for (; rest != 0; rest = static_cast<GpuMask>(rest & (rest - 1))) {
    ways.push_back(static_cast<GpuMask>(1u << std::countr_zero(rest)));
  }
  return ways;
}

NodeState After(const State& state, NodeIndex node, const Shape& shape, GpuMask gpus) {
  NodeState after = state.node(node);
  after.free_cpu_milli -= shape.cpu_milli;
  for (size_t i = 0; i < after.devices; ++i) {
    if ((gpus >> i & 1) == 0) continue;
    after.free_share[i] =
        static_cast<int16_t>(after.free_share[i] - (shape.gpus > 0 ? kWholeGpu : shape.share));
  }
  return after;
}

bool Usable(const State& state, NodeIndex node, ShapeId shape) {
  return state.node(node).ready() && state.Fits(node, shape);
}

}  // namespace

std::optional<SmallChoice> ChooseBestFit(const State& state, ShapeId id) {
  double most_cpu = 1;
  double most_milli = 1;
  for (const spec::NodeKind& kind : state.topology().kinds()) {
    most_cpu = std::max(most_cpu, static_cast<double>(kind.cpu_milli));
    most_milli = std::max(most_milli, static_cast<double>(kind.devices.size()) * kWholeGpu);
  }
  const Shape& shape = state.shape(id);
  std::optional<NodeIndex> best;
  double least = 0;
  for (NodeIndex n = 0; n < state.size(); ++n) {
    if (!Usable(state, n, id)) continue;
    const NodeState& node = state.node(n);
    const double left = (node.free_cpu_milli - shape.cpu_milli) / most_cpu +
                        (node.free_milli() - shape.gpu_milli()) / most_milli;
    if (best && left >= least) continue;
    best = n;
    least = left;
  }
  if (!best) return std::nullopt;
  return SmallChoice{*best, state.ChooseGpus(*best, id)};
}

// The score is rounded down to whole points of 100, as in the published rule; ties go to the lowest
// node. Rounding makes many ties, so it is part of the rule.
std::optional<SmallChoice> ChoosePublishedFgd(const State& state, ShapeId id,
                                              const FragmentationTable& table) {
  const auto weight = static_cast<double>(std::max<int64_t>(table.weight(), 1));
  std::optional<SmallChoice> best;
  double most = 0;
  for (NodeIndex n = 0; n < state.size(); ++n) {
    if (!Usable(state, n, id)) continue;
    const int64_t before = table.Of(state.node(n));
    std::optional<int64_t> least;
    GpuMask gpus = 0;
    for (const GpuMask way : Ways(state, n, id)) {
      const int64_t rise = table.Of(After(state, n, state.shape(id), way)) - before;
      if (least && rise >= *least) continue;
      least = rise;
      gpus = way;
    }
    const double rise = static_cast<double>(*least) / weight;
    const double score = std::floor(100 / (1 + std::exp(rise / 1'000)));
    if (best && score <= most) continue;
    best = SmallChoice{n, gpus};
    most = score;
  }
  return best;
}

// Reservoir sampling: each usable node is equally likely, in one pass.
std::optional<SmallChoice> ChooseRandom(const State& state, ShapeId id, Random& random) {
  std::optional<NodeIndex> chosen;
  uint64_t seen = 0;
  for (NodeIndex n = 0; n < state.size(); ++n) {
    if (Usable(state, n, id) && random.Below(++seen) == 0) chosen = n;
  }
  if (!chosen) return std::nullopt;
  return SmallChoice{*chosen, state.ChooseGpus(*chosen, id)};
}

}  // namespace longhaul::scheduler
