// How many tasks of one shape fit now: on each host, and summed for every domain above it.
//
// The caller keeps one table a shape and tells it each change of a host (an undo is a change back),
// so that a placement reads capacities instead of counting them. Per leaf there is also a histogram
// of hosts by slots, from which the fewest hosts for a number of tasks follow in a few steps.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "base/check.h"
#include "scheduler/gang/domain_tree.h"

namespace longhaul::scheduler {

class SlotTable {
 public:
  // All hosts start with no slot. A host has at most `max_slots`. Requires 1 <= max_slots <= 1024
  // and that the tree outlives the table.
  SlotTable(const DomainTree& tree, int32_t max_slots);

  // Sets a host's slots: O(tiers). Requires 0 <= slots <= max_slots().
  void Set(int32_t host, int32_t slots);

  const DomainTree& tree() const { return *tree_; }
  int32_t max_slots() const { return max_slots_; }
  int32_t OnHost(int32_t host) const { return host_[static_cast<size_t>(host)]; }
  int32_t InLeaf(int32_t leaf) const { return In(kLeafTier, leaf); }
  int32_t total() const { return total_; }

  // The slots of a domain. Requires a tier of the tree.
  int32_t In(Tier tier, int32_t domain) const {
    return sums_[static_cast<size_t>(tier)][static_cast<size_t>(domain)];
  }
  std::span<const int32_t> sums(Tier tier) const { return sums_[static_cast<size_t>(tier)]; }

  // Entry k counts the leaf's hosts with exactly k slots, 0 <= k <= max_slots().
  std::span<const int32_t> Histogram(int32_t leaf) const {
    const size_t row = static_cast<size_t>(max_slots_) + 1;
    return {histogram_.data() + row * static_cast<size_t>(leaf), row};
  }

 private:
  const DomainTree* tree_;
  int32_t max_slots_;
  int32_t total_ = 0;
  std::vector<int32_t> host_;
  std::vector<std::vector<int32_t>> sums_;  // [tier][domain]
  std::vector<int32_t> histogram_;          // [leaf][slots]
};

}  // namespace longhaul::scheduler
