#include "scheduler/gang/rails.h"

#include <algorithm>
#include <array>
#include <bit>
#include <memory>
#include <tuple>

#include "base/check.h"

namespace longhaul::scheduler {

std::vector<uint8_t> LegalMasks(std::span<const uint8_t> islands, int32_t gpus) {
  uint8_t all = 0;
  int32_t largest = 0;
  for (const uint8_t island : islands) {
    CHECK(island != 0 && (island & all) == 0) << "islands must not be empty or overlap";
    all = static_cast<uint8_t>(all | island);
    largest = std::max(largest, std::popcount(island));
  }
  CHECK(gpus >= 1 && gpus <= std::popcount(all)) << gpus << " GPUs";
  std::vector<uint8_t> masks;
  for (int32_t m = 1; m < 256; ++m) {
    const auto mask = static_cast<uint8_t>(m);
    if ((mask & ~all) != 0 || std::popcount(mask) != gpus) continue;
    int32_t touched = 0;
    int32_t broken = 0;
    for (const uint8_t island : islands) {
      touched += (mask & island) != 0 ? 1 : 0;
      broken += (mask & island) != 0 && (mask & island) != island ? 1 : 0;
    }
    // What an island can hold stays on one island; more than that fills whole islands and leaves at
    // most one of them in part.
    const bool legal = gpus <= largest ? touched == 1 : broken <= 1;
    if (legal) masks.push_back(mask);
  }
  return masks;
}

RailTable::RailTable(const DomainTree& tree, int32_t rails)
    : tree_(&tree), rails_(rails), host_(static_cast<size_t>(tree.hosts())) {
  CHECK(rails >= 1 && rails <= kMaxRails) << rails << " rails";
  histogram_.resize(static_cast<size_t>(tree.leaves()) << rails);
  for (int32_t leaf = 0; leaf < tree.leaves(); ++leaf) {
    histogram_[static_cast<size_t>(leaf) << rails] =
        tree.Last(kLeafTier, leaf) - tree.First(kLeafTier, leaf);
  }
}

void RailTable::Set(int32_t host, uint8_t free_gpus) {
  CHECK(free_gpus >> rails_ == 0) << "host " << host << " has no GPU of that rail";
  const size_t row = static_cast<size_t>(tree_->LeafOf(host)) << rails_;
  --histogram_[row + host_[static_cast<size_t>(host)]];
  ++histogram_[row + free_gpus];
  host_[static_cast<size_t>(host)] = free_gpus;
}

// The sum over supersets one bit at a time: rails x 2^rails additions for all masks, in place of a
// pass over the hosts of the leaf for each mask.
void RailTable::SupersetCounts(int32_t leaf, std::span<int32_t> counts) const {
  const size_t masks = size_t{1} << rails_;
  CHECK(counts.size() == masks);
  const auto row = static_cast<ptrdiff_t>(static_cast<size_t>(leaf) << rails_);
  std::copy_n(histogram_.begin() + row, masks, counts.begin());
  for (size_t bit = 1; bit < masks; bit <<= 1) {
    for (size_t mask = 0; mask < masks; ++mask) {
      if ((mask & bit) == 0) counts[mask] += counts[mask | bit];
    }
  }
}

namespace {

// Masks that can be best: where some mask serves in one leaf, those that leave the least there.
std::vector<uint8_t> Promising(const RailTable& table, std::span<const uint8_t> masks,
                               const EqualTasksRequest& request) {
  const bool plain = request.slice == 1 && request.free_of_charge.empty() &&
                     request.within_tier >= table.tree().tiers() &&
                     request.required_tier > kHostTier;
  if (!plain) return {masks.begin(), masks.end()};
  std::vector<int32_t> counts(size_t{1} << table.rails());
  std::vector<int32_t> least(counts.size(), -1);  // left over in one leaf; -1: no leaf suffices
  std::vector<int32_t> total(counts.size(), 0);
  for (int32_t leaf = 0; leaf < table.tree().leaves(); ++leaf) {
    table.SupersetCounts(leaf, counts);
    for (const uint8_t mask : masks) {
      total[mask] += counts[mask];
      const int32_t left = counts[mask] - request.tasks;
      if (left >= 0 && (least[mask] < 0 || left < least[mask])) least[mask] = left;
    }
  }
  int32_t best = -1;
  for (const uint8_t mask : masks) {
    if (least[mask] >= 0 && (best < 0 || least[mask] < best)) best = least[mask];
  }
  std::vector<uint8_t> promising;
  for (const uint8_t mask : masks) {
    if (best >= 0 ? least[mask] == best : total[mask] >= request.tasks) promising.push_back(mask);
  }
  return promising;
}

}  // namespace

RailAnswer PlaceOnRails(const RailTable& table, std::span<const uint8_t> legal_masks,
                        const EqualTasksRequest& request, EqualTasksSolver& solver) {
  CHECK(request.slice == 1 || request.slice_tier != kHostTier) << "a host holds one task a mask";
  const DomainTree& tree = table.tree();
  RailAnswer best;
  best.placement.placed = false;
  // Fewest domains from the top tier down, then the least left over in leaves, then the fewest free
  // GPUs that stay behind on the chosen hosts; the mask itself makes the order total.
  std::tuple<std::array<int32_t, kMaxTiers>, int32_t, int32_t, int32_t> best_key;
  SlotTable slots(tree, 1);
  EqualTasksAnswer answer;
  for (const uint8_t mask : Promising(table, legal_masks, request)) {
    for (int32_t host = 0; host < tree.hosts(); ++host) {
      slots.Set(host, (table.OnHost(host) & mask) == mask ? 1 : 0);
    }
    if (slots.total() < request.tasks) continue;
    solver.Solve(slots, request, answer);
    if (!answer.placed) continue;
    std::array<int32_t, kMaxTiers> domains = answer.domains;
    std::reverse(domains.begin(), domains.end());  // the top tier counts first
    int32_t gpus_left = 0;
    for (const HostTasks& entry : answer.tasks) {
      gpus_left += std::popcount(table.OnHost(entry.host)) - std::popcount(mask);
    }
    const auto key = std::make_tuple(domains, answer.leaf_leftover, gpus_left, int32_t{mask});
    if (best.placement.placed && key >= best_key) continue;
    best_key = key;
    best.mask = mask;
    best.placement = answer;
  }
  return best;
}

}  // namespace longhaul::scheduler
