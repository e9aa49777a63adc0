// The expected fragmentation of a node: how much of its idle cards the next task can't use.
//
// F(n) = sum over the typical shapes m of weight(m) x f(n, m), where f is all idle share of n if m
// cannot run there (model, class, cpu, cards), else the sum of the free shares of those cards whose
// free share is below m's, a whole-card task needing 1,000 (fragmentation gradient descent: Weng et
// al., USENIX ATC 2023). Weights are counts and shares are thousandths, so F is an exact integer.
//
// For a given group of nodes (device model, class) F depends on the free cpu and the free shares
// only. Weights summed by cpu need, cards and share make it a few look-ups a card, whatever the
// number of shapes. Leaves out host memory, device memory and counted resources.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <vector>

#include "scheduler/small_jobs/task_mix.h"
#include "scheduler/state/state.h"

namespace longhaul::scheduler {

class FragmentationTable {
 public:
  // Copies what it needs of the state's shapes and groups.
  FragmentationTable(const State& state, const TaskMix& mix);

  // F of a node of this group with these free shares (those below zero count as zero) and this
  // much free cpu. At most typical_weight x 16,000.
  int64_t Of(GroupIndex group, int32_t free_cpu_milli, std::span<const int16_t> free_shares) const;
  int64_t Of(const NodeState& node) const {
    return Of(node.group, node.free_cpu_milli, {node.free_share.data(), node.devices});
  }

  // The sum of the weights.
  int64_t weight() const { return weight_; }

 private:
  static constexpr size_t kCards = spec::kMaxDevices + 1;

  int64_t* Row(GroupIndex group, size_t cpu_rank) {
    return &sums_[(group * (cpu_needs_.size() + 1) + cpu_rank) * row_];
  }

  int64_t weight_ = 0;
  std::vector<int32_t> cpu_needs_;                   // distinct, ascending
  std::array<uint16_t, kWholeCard + 1> share_rank_;  // how many distinct shares are <= this
  // For each group and each number of cpu needs that are met, a row: the weight of shapes without
  // cards; [kCards] of whole-card shapes of at most k cards; of fractions by share rank.
  size_t row_ = 0;
  std::vector<int64_t> sums_;
};

}  // namespace longhaul::scheduler
