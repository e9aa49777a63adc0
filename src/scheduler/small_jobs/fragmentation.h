// The expected fragmentation of a node: how much of its idle GPUs the next task can't use.
//
// F(n) = sum over the typical shapes m of weight(m) x f(n, m), where f is all idle share of n if m
// cannot run there (model, class, cpu, GPUs), else the sum of the free shares of those GPUs whose
// free share is below m's, a whole-GPU task needing 1,000 (fragmentation gradient descent: Weng et
// al., USENIX ATC 2023). Weights are counts and shares are thousandths, so F is an exact integer.
//
// For a given group of nodes (device model, class) F depends on the free cpu and the free shares
// only. Weights summed by cpu need, GPUs and share make it a few look-ups a GPU, whatever the
// number of shapes. Leaves out host memory, device memory and counted resources.
#pragma once

#include <algorithm>
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

  // The sums that hold for nodes of this group with this much free cpu.
  using Row = const int64_t*;
  Row RowOf(GroupIndex group, int32_t free_cpu_milli) const {
    return &sums_[(group * (cpu_needs_.size() + 1) + CpuRank(free_cpu_milli)) * row_];
  }
  // F of a node of the row with these free shares (those below zero count as zero). At most
  // typical_weight x 16,000.
  int64_t Of(Row row, std::span<const int16_t> free_shares) const;
  int64_t Of(GroupIndex group, int32_t free_cpu_milli, std::span<const int16_t> free_shares) const {
    return Of(RowOf(group, free_cpu_milli), free_shares);
  }
  int64_t Of(const NodeState& node) const {
    return Of(node.group, node.free_cpu_milli, {node.free_share.data(), node.devices});
  }

  // The sum of the weights.
  int64_t weight() const { return weight_; }

 private:
  static constexpr size_t kGpus = spec::kMaxDevices + 1;

  // How many of the distinct cpu needs are met.
  size_t CpuRank(int32_t free_cpu_milli) const {
    const auto bucket = static_cast<uint32_t>(std::max(free_cpu_milli, 0)) >> bucket_shift_;
    size_t rank = bucket < first_rank_.size() ? first_rank_[bucket] : cpu_needs_.size();
    while (rank < cpu_needs_.size() && cpu_needs_[rank] <= free_cpu_milli) ++rank;
    return rank;
  }
  void MakeBuckets();

  int64_t weight_ = 0;
  std::vector<int32_t> cpu_needs_;    // distinct, ascending
  std::vector<uint16_t> first_rank_;  // by free cpu >> bucket_shift_: a lower bound
  int bucket_shift_ = 0;
  std::array<uint16_t, kWholeGpu + 1> share_rank_;  // how many distinct shares are <= this
  // For each group and each number of cpu needs that are met, a row: the weight of shapes without
  // GPUs; [kGpus] of whole-GPU shapes of at most k GPUs; of fractions by share rank.
  size_t row_ = 0;
  std::vector<int64_t> sums_;
};

}  // namespace longhaul::scheduler
