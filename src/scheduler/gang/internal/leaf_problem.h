// A placement of equal tasks reduced to whole numbers: units, capacities in units, what is free.
//
// A unit is a task, or a slice where slices lie on hosts. Capacities of slice_tier's domains are
// whole slices; those above are sums. Only leaves of the request's domain are seen.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <vector>

#include "scheduler/gang/equal_tasks.h"

namespace longhaul::scheduler::internal {

using Counts = std::array<int32_t, kMaxTiers>;  // of domains, a tier

struct LeafProblem {
  // Reads the request against the slots. Keeps its memory between calls.
  void Load(const SlotTable& slots, const EqualTasksRequest& request);

  // A division of every host's slots would cost more than all else of a placement.
  int32_t Units(int32_t slots_on_host) const {
    return host_slice == 1 ? slots_on_host : slots_on_host / host_slice;
  }
  int32_t CapacityOf(Tier tier, int32_t domain) const {
    return capacity[static_cast<size_t>(tier)][static_cast<size_t>(domain)];
  }
  bool FreeOfCharge(Tier tier, int32_t domain) const {
    return any_free && free[static_cast<size_t>(tier)][static_cast<size_t>(domain)] != 0;
  }
  // The domains of a tier that hold a leaf of the problem: [FirstOf, LastOf).
  int32_t FirstOf(Tier tier) const { return first[static_cast<size_t>(tier)]; }
  int32_t LastOf(Tier tier) const { return last[static_cast<size_t>(tier)]; }

  // The fewest hosts of the leaf that hold so many units. Requires that they fit.
  int32_t FewestHosts(int32_t leaf, int32_t wanted_units) const;

  const SlotTable* slots = nullptr;
  const DomainTree* tree = nullptr;
  Tier tiers = 0;
  int32_t units = 0;       // wanted
  int32_t host_slice = 1;  // tasks a unit
  int32_t slice = 1;       // units that stay in one domain of slice_tier
  Tier slice_tier = kLeafTier;
  bool any_free = false;
  Counts first{};
  Counts last{};
  std::array<std::vector<int32_t>, kMaxTiers> capacity;
  std::array<std::vector<uint8_t>, kMaxTiers> free;
};

}  // namespace longhaul::scheduler::internal
