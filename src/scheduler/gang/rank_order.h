// Who gets which rank: the planner's groups folded onto the chosen hosts.
//
// A rank has a tensor, a data and a pipeline index; ranks that differ in one index only form a
// group that talks, `volume` a step. A group that spans d leaves crosses d - 1 times, and again
// d - 1 times for the d blocks (and tiers above) it spans. Slots in the order of hosts are filled
// with tensor groups first, then along data or along pipeline; the nesting with the lower sum of
// volume x crossings is kept, and cells (one data and one pipeline index) swap slots until no swap
// helps or the step limit is reached. Grouping after Arnold (arXiv 2509.15940). Left out: the
// fabric's times; volume x crossings stands for them.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <vector>

#include "scheduler/gang/domain_tree.h"
#include "scheduler/gang/equal_tasks.h"

namespace longhaul::scheduler {

struct GroupLayout {
  int32_t tensor = 1;
  int32_t data = 1;
  int32_t pipeline = 1;
  // Bytes (or any unit) that one group moves across each of its borders in a step.
  int64_t tensor_volume = 0;
  int64_t data_volume = 0;
  int64_t pipeline_volume = 0;
};

// Sums over groups of (domains spanned - 1), a tier; kHostTier first.
struct Crossings {
  std::array<int64_t, kMaxTiers + 1> tensor{};
  std::array<int64_t, kMaxTiers + 1> data{};
  std::array<int64_t, kMaxTiers + 1> pipeline{};
};

struct RankOrder {
  // The host of rank (pipeline index x data + data index) x tensor + tensor index.
  std::vector<int32_t> host_of_rank;
  int64_t cost = 0;         // sum of volume x crossings over leaves and the tiers above
  int64_t folded_cost = 0;  // before swaps
  bool data_inside = true;  // the nesting kept: data groups contiguous, or pipeline groups
  Crossings crossings;
};

// `slots` are the chosen hosts, ascending, each with the ranks it holds; their sum must be
// tensor x data x pipeline. Requires volumes >= 0 and below 2^40.
RankOrder OrderRanks(const DomainTree& tree, std::span<const HostTasks> slots,
                     const GroupLayout& layout, int64_t max_steps = 200'000);

// The cost of any order, from the definition.
int64_t CrossingCost(const DomainTree& tree, std::span<const int32_t> host_of_rank,
                     const GroupLayout& layout, Crossings* crossings = nullptr);

}  // namespace longhaul::scheduler
