#include "scheduler/gang/slot_table.h"

namespace longhaul::scheduler {

SlotTable::SlotTable(const DomainTree& tree, int32_t max_slots)
    : tree_(&tree), max_slots_(max_slots), host_(static_cast<size_t>(tree.hosts())) {
  CHECK(max_slots >= 1 && max_slots <= 1024) << "max_slots " << max_slots;
  for (Tier tier = 0; tier < tree.tiers(); ++tier) {
    sums_.emplace_back(static_cast<size_t>(tree.domains(tier)));
  }
  const size_t row = static_cast<size_t>(max_slots) + 1;
  histogram_.resize(row * static_cast<size_t>(tree.leaves()));
  for (int32_t leaf = 0; leaf < tree.leaves(); ++leaf) {
    histogram_[row * static_cast<size_t>(leaf)] =
        tree.Last(kLeafTier, leaf) - tree.First(kLeafTier, leaf);
  }
}

void SlotTable::Set(int32_t host, int32_t slots) {
  CHECK(slots >= 0 && slots <= max_slots_)
      << "host " << host << " has " << slots << " slots of " << max_slots_;
  const int32_t change = slots - host_[static_cast<size_t>(host)];
  if (change == 0) return;
  const size_t row =
      (static_cast<size_t>(max_slots_) + 1) * static_cast<size_t>(tree_->LeafOf(host));
  --histogram_[row + static_cast<size_t>(host_[static_cast<size_t>(host)])];
  ++histogram_[row + static_cast<size_t>(slots)];
  host_[static_cast<size_t>(host)] = slots;
  total_ += change;
  for (Tier tier = 0; tier < tree_->tiers(); ++tier) {
    sums_[static_cast<size_t>(tier)][static_cast<size_t>(tree_->DomainOf(tier, host))] += change;
  }
}

}  // namespace longhaul::scheduler
