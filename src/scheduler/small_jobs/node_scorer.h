// How well a node suits one task of a shape: an integer, the least is the best.
//
// The sum, in 2^-16 thousandths of a GPU times the mix's weight, of
//   the rise of the node's expected fragmentation          (small_jobs/fragmentation.h)
//   what the GPU loses of its value to later fractions    (small_jobs/gpu_packing.h)
//   a pull towards full nodes: their free cpu and idle share after the placement
//   what is missing of the node's health
//   gangs that no longer fit once this wholly free host is broken, if that is counted.
// The scarcity of device models is added by the caller: it is the same for all nodes of a group
// and changes with every placement. Leaves out conditions: nodes that aren't ready have no score.
#pragma once

#include <cstdint>
#include <limits>
#include <vector>

#include "scheduler/small_jobs/fragmentation.h"
#include "scheduler/small_jobs/gpu_packing.h"
#include "scheduler/small_jobs/policy.h"
#include "scheduler/state/state.h"

namespace longhaul::scheduler {

inline constexpr int64_t kNoFit = std::numeric_limits<int64_t>::max();

// How often gangs of so many whole hosts arrive.
struct GangWeight {
  uint32_t hosts = 1;
  int64_t weight = 0;
};

class NodeScorer {
 public:
  // Copies what it needs of the state's shapes and groups: scores are for this state and its
  // copies.
  NodeScorer(const State& state, const TaskMix& mix, const SmallJobPolicy& policy,
             const std::vector<GangWeight>& gangs = {});

  struct Scored {
    int64_t score = kNoFit;
    GpuMask gpu = 0;  // for a fraction: which; else 0
  };
  // Requires that `fragmentation` is Fragmentation(node) and that the node's group is allowed.
  Scored Score(const State& state, NodeIndex node, const Shape& shape, int64_t fragmentation) const;
  int64_t Fragmentation(const NodeState& node) const { return table_.Of(node); }

  // What a price of `milli` thousandths adds to the score of such a task.
  int64_t PriceTerm(const Shape& shape, int64_t milli) const {
    return milli * shape.gpu_milli() * weight_ / 1'000 * kUnit;
  }

  bool counts_holes() const { return !lost_by_free_hosts_.empty(); }

 private:
  static constexpr int64_t kUnit = int64_t{1} << 16;

  int64_t HoleTerm(const State& state, NodeIndex node) const;

  SmallJobPolicy policy_;
  FragmentationTable table_;
  GpuValues values_;
  int64_t weight_;
  // Thousandths, times kUnit: for one thousandth of cpu (times 2^16 more) and of a GPU.
  int64_t cpu_pull_ = 0;
  int64_t gpu_pull_ = 0;
  int64_t packing_;
  // By the number of free hosts in a domain: what breaking one of them costs; empty: nothing.
  std::vector<int64_t> lost_by_free_hosts_;
};

}  // namespace longhaul::scheduler
