#include "scheduler/gang/rank_order.h"

#include <algorithm>

#include "base/check.h"

namespace longhaul::scheduler {

namespace {

constexpr int64_t kMaxVolume = int64_t{1} << 40;

// The domains spanned by the hosts of a group, a tier; kHostTier first.
class SpanCounter {
 public:
  explicit SpanCounter(const DomainTree& tree) : tree_(tree) {}

  // Adds (spanned - 1) of each tier to the sums.
  void Add(std::vector<int32_t>& hosts, std::array<int64_t, kMaxTiers + 1>& sums) const {
    std::sort(hosts.begin(), hosts.end());
    for (size_t i = 1; i < hosts.size(); ++i) {
      if (hosts[i] == hosts[i - 1]) continue;
      ++sums[0];
      for (Tier tier = 0; tier < tree_.tiers(); ++tier) {
        // Hosts ascend, so a domain's hosts are together.
        if (tree_.DomainOf(tier, hosts[i]) != tree_.DomainOf(tier, hosts[i - 1])) {
          ++sums[static_cast<size_t>(tier) + 1];
        }
      }
    }
  }

 private:
  const DomainTree& tree_;
};

// Starts at 1: the number of hosts spanned within leaves is reported but costs nothing.
int64_t Weighted(const std::array<int64_t, kMaxTiers + 1>& sums, int64_t volume) {
  int64_t crossings = 0;
  for (size_t tier = 1; tier < sums.size(); ++tier) crossings += sums[tier];
  return crossings * volume;
}

// Cells (a data and a pipeline index, with all their tensor ranks) in slots, and what swaps change.
class CellSwaps {
 public:
  // cell_at[slot] is pipeline index x data + data index.
  CellSwaps(const DomainTree& tree, const GroupLayout& layout, std::vector<int32_t> slot_host,
            std::vector<int32_t> cell_at)
      : layout_(layout), cell_at_(std::move(cell_at)) {
    for (Tier tier = 0; tier < tree.tiers(); ++tier) {
      Level& level = levels_.emplace_back();
      level.domains = static_cast<size_t>(tree.domains(tier));
      for (const int32_t host : slot_host)
        level.domain_of_slot.push_back(tree.DomainOf(tier, host));
      level.of_data.assign(static_cast<size_t>(layout.pipeline) * level.domains, 0);
      level.of_pipeline.assign(static_cast<size_t>(layout.data) * level.domains, 0);
      for (size_t slot = 0; slot < cell_at_.size(); ++slot) {
        ++DataCount(level, cell_at_[slot], level.domain_of_slot[slot]);
        ++PipelineCount(level, cell_at_[slot], level.domain_of_slot[slot]);
      }
    }
  }

  // Swaps until none helps or the steps are used up; slots whose ranks span hosts stay.
  void Improve(const std::vector<uint8_t>& fixed, int64_t max_steps) {
    bool improved = true;
    int64_t steps = 0;
    while (improved) {
      improved = false;
      for (size_t a = 0; a < cell_at_.size(); ++a) {
        for (size_t b = a + 1; b < cell_at_.size() && fixed[a] == 0; ++b) {
          // Slots of one leaf are alike for every tier above the hosts.
          const Level& leaves = levels_.front();
          if (fixed[b] != 0 || leaves.domain_of_slot[a] == leaves.domain_of_slot[b]) continue;
          if (++steps > max_steps) return;
          improved = TrySwap(a, b) || improved;
        }
      }
    }
  }

  const std::vector<int32_t>& cell_at() const { return cell_at_; }

 private:
  struct Level {
    size_t domains = 0;
    std::vector<int32_t> domain_of_slot;
    std::vector<int32_t> of_data;      // [pipeline index][domain]: cells there
    std::vector<int32_t> of_pipeline;  // [data index][domain]
  };

  int32_t& DataCount(Level& level, int32_t cell, int32_t domain) const {
    return level.of_data[static_cast<size_t>(cell / layout_.data) * level.domains +
                         static_cast<size_t>(domain)];
  }
  int32_t& PipelineCount(Level& level, int32_t cell, int32_t domain) const {
    return level.of_pipeline[static_cast<size_t>(cell % layout_.data) * level.domains +
                             static_cast<size_t>(domain)];
  }

  // Moves a cell between slots; returns how the cost changes.
  int64_t Move(int32_t cell, size_t from, size_t to) {
    int64_t change = 0;
    for (Level& level : levels_) {
      const int32_t out = level.domain_of_slot[from];
      const int32_t in = level.domain_of_slot[to];
      if (out == in) continue;
      int64_t data = 0;
      data -= --DataCount(level, cell, out) == 0 ? 1 : 0;
      data += DataCount(level, cell, in)++ == 0 ? 1 : 0;
      int64_t pipeline = 0;
      pipeline -= --PipelineCount(level, cell, out) == 0 ? 1 : 0;
      pipeline += PipelineCount(level, cell, in)++ == 0 ? 1 : 0;
      // Each of the cell's tensor ranks has its own data and pipeline group.
      change += layout_.tensor * (data * layout_.data_volume + pipeline * layout_.pipeline_volume);
    }
    return change;
  }

  // The two moves are counted one after the other, so that cells of one group cancel out: a domain
  // that the first move empties and the second fills again adds nothing. A swap that does not help
  // is taken back by the reverse moves, which restores the counts.
  bool TrySwap(size_t a, size_t b) {
    const int32_t first = cell_at_[a];
    const int32_t second = cell_at_[b];
    if (Move(first, a, b) + Move(second, b, a) < 0) {
      std::swap(cell_at_[a], cell_at_[b]);
      return true;
    }
    Move(first, b, a);
    Move(second, a, b);
    return false;
  }

  GroupLayout layout_;
  std::vector<int32_t> cell_at_;
  std::vector<Level> levels_;
};

// The cells in the order of slots: data groups contiguous, or pipeline groups.
std::vector<int32_t> Fold(const GroupLayout& layout, bool data_inside) {
  std::vector<int32_t> cells;
  const int32_t outer = data_inside ? layout.pipeline : layout.data;
  const int32_t inner = data_inside ? layout.data : layout.pipeline;
  for (int32_t o = 0; o < outer; ++o) {
    for (int32_t i = 0; i < inner; ++i) {
      cells.push_back(data_inside ? o * layout.data + i : i * layout.data + o);
    }
  }
  return cells;
}

std::vector<int32_t> HostsOfRanks(const std::vector<int32_t>& cells,
                                  const std::vector<int32_t>& host_of_slot, int32_t tensor) {
  std::vector<int32_t> hosts(host_of_slot.size());
  const auto ranks = static_cast<size_t>(tensor);
  for (size_t slot = 0; slot < cells.size(); ++slot) {
    for (size_t t = 0; t < ranks; ++t) {
      hosts[static_cast<size_t>(cells[slot]) * ranks + t] = host_of_slot[slot * ranks + t];
    }
  }
  return hosts;
}

}  // namespace

int64_t CrossingCost(const DomainTree& tree, std::span<const int32_t> host_of_rank,
                     const GroupLayout& layout, Crossings* crossings) {
  const SpanCounter counter(tree);
  Crossings sums;
  std::vector<int32_t> hosts;
  const auto rank = [&](int32_t p, int32_t d, int32_t t) {
    return static_cast<size_t>((p * layout.data + d) * layout.tensor + t);
  };
  for (int32_t p = 0; p < layout.pipeline; ++p) {
    for (int32_t d = 0; d < layout.data; ++d) {
      hosts.clear();
      for (int32_t t = 0; t < layout.tensor; ++t) hosts.push_back(host_of_rank[rank(p, d, t)]);
      counter.Add(hosts, sums.tensor);
    }
  }
  for (int32_t t = 0; t < layout.tensor; ++t) {
    for (int32_t p = 0; p < layout.pipeline; ++p) {
      hosts.clear();
      for (int32_t d = 0; d < layout.data; ++d) hosts.push_back(host_of_rank[rank(p, d, t)]);
      counter.Add(hosts, sums.data);
    }
    for (int32_t d = 0; d < layout.data; ++d) {
      hosts.clear();
      for (int32_t p = 0; p < layout.pipeline; ++p) hosts.push_back(host_of_rank[rank(p, d, t)]);
      counter.Add(hosts, sums.pipeline);
    }
  }
  if (crossings != nullptr) *crossings = sums;
  return Weighted(sums.tensor, layout.tensor_volume) + Weighted(sums.data, layout.data_volume) +
         Weighted(sums.pipeline, layout.pipeline_volume);
}

RankOrder OrderRanks(const DomainTree& tree, std::span<const HostTasks> slots,
                     const GroupLayout& layout, int64_t max_steps) {
  CHECK(layout.tensor >= 1 && layout.data >= 1 && layout.pipeline >= 1);
  for (const int64_t volume : {layout.tensor_volume, layout.data_volume, layout.pipeline_volume}) {
    CHECK(volume >= 0 && volume < kMaxVolume) << "volume " << volume;
  }
  // Hosts that hold whole tensor groups first get those; what is left on each is filled last, so a
  // group spans hosts only where no host has room for it.
  const size_t tensor = static_cast<size_t>(layout.tensor);
  std::vector<int32_t> host_of_slot;
  std::vector<int32_t> rests;
  for (const HostTasks& entry : slots) {
    const auto count = static_cast<size_t>(entry.tasks);
    host_of_slot.insert(host_of_slot.end(), count - count % tensor, entry.host);
    rests.insert(rests.end(), count % tensor, entry.host);
  }
  host_of_slot.insert(host_of_slot.end(), rests.begin(), rests.end());
  const auto cells = static_cast<size_t>(layout.data) * static_cast<size_t>(layout.pipeline);
  CHECK(host_of_slot.size() == cells * tensor)
      << host_of_slot.size() << " ranks on the hosts, " << cells * tensor << " in the layout";
  std::vector<int32_t> cell_host;
  std::vector<uint8_t> fixed;
  for (size_t cell = 0; cell < cells; ++cell) {
    cell_host.push_back(host_of_slot[cell * tensor]);
    fixed.push_back(host_of_slot[cell * tensor] != host_of_slot[cell * tensor + tensor - 1] ? 1
                                                                                            : 0);
  }
  RankOrder best;
  for (const bool data_inside : {true, false}) {
    RankOrder order;
    order.data_inside = data_inside;
    std::vector<int32_t> folded = Fold(layout, data_inside);
    order.folded_cost =
        CrossingCost(tree, HostsOfRanks(folded, host_of_slot, layout.tensor), layout);
    CellSwaps swaps(tree, layout, cell_host, std::move(folded));
    swaps.Improve(fixed, max_steps / 2);
    // The cost is computed anew and not summed up from the swaps: the swaps place a cell whose
    // ranks span hosts on its first host only.
    order.host_of_rank = HostsOfRanks(swaps.cell_at(), host_of_slot, layout.tensor);
    order.cost = CrossingCost(tree, order.host_of_rank, layout, &order.crossings);
    if (best.host_of_rank.empty() || order.cost < best.cost) best = std::move(order);
  }
  return best;
}

}  // namespace longhaul::scheduler
