#include "scheduler/internal/slot_tables.h"

#include <algorithm>

#include "base/check.h"

namespace longhaul::scheduler::internal {

bool Admitted(const State& state, NodeIndex node, Admit admit) {
  const spec::NodeCondition condition = state.node(node).condition;
  return condition == spec::NodeCondition::kReady ||
         (admit == Admit::kSuspectToo && condition == spec::NodeCondition::kSuspect) ||
         (admit == Admit::kSpareToo && condition == spec::NodeCondition::kSpare);
}

int32_t SlotsFor(const State& state, NodeIndex node, ShapeId shape, Admit admit, int32_t limit) {
  if (!Admitted(state, node, admit)) return 0;
  return static_cast<int32_t>(state.Slots(node, shape, static_cast<uint32_t>(limit)));
}

int32_t MostSlots(const State& state, ShapeId shape) {
  uint32_t most = 1;
  for (const uint32_t slots : state.SlotsWhenEmpty(state.shape(shape), 1'024)) {
    most = std::max(most, slots);
  }
  return static_cast<int32_t>(most);
}

const SlotTable& SlotTables::Of(const State& state, ShapeId shape, Admit admit) {
  const auto kind = static_cast<size_t>(admit);
  const auto number = static_cast<size_t>(shape);
  if (index_.size() <= kind) index_.resize(kind + 1);
  if (index_[kind].size() <= number) index_[kind].resize(number + 1, -1);
  int32_t& at = index_[kind][number];
  const bool fresh = at < 0;
  if (fresh) {
    at = static_cast<int32_t>(entries_.size());
    entries_.push_back({shape, admit, 0, SlotTable(*tree_, MostSlots(state, shape))});
  }
  Entry& entry = entries_[static_cast<size_t>(at)];
  // The table is brought up to date by the nodes that have changed since it was last used. If more
  // have changed than the state remembers, all are read.
  const auto look = [&](NodeIndex node) {
    entry.table.Set(static_cast<int32_t>(node),
                    SlotsFor(state, node, shape, admit, entry.table.max_slots()));
  };
  if (fresh || state.changes() - entry.seen > State::kKeptChanges) {
    for (NodeIndex node = 0; node < state.size(); ++node) look(node);
  } else {
    for (uint64_t change = entry.seen; change < state.changes(); ++change) {
      look(state.change(change));
    }
  }
  entry.seen = state.changes();
  return entry.table;
}

// The bounds of each level in units of the level below, as DomainTree requires. The whole cluster,
// which is the last level, is no tier of its own unless it is the only one.
DomainTree TreeOf(const spec::Topology& topology) {
  const auto levels = topology.levels();
  std::vector<std::vector<int32_t>> bounds;
  for (size_t level = 0; level + 1 < std::max<size_t>(levels.size(), 2); ++level) {
    std::vector<int32_t>& tier = bounds.emplace_back(1, 0);
    size_t child = 0;
    for (const spec::Domain& domain : levels[level].domains) {
      if (level == 0) {
        tier.push_back(static_cast<int32_t>(domain.last));
        continue;
      }
      const auto& below = levels[level - 1].domains;
      while (child < below.size() && below[child].first < domain.last) ++child;
      tier.push_back(static_cast<int32_t>(child));
    }
  }
  Result<DomainTree> tree = DomainTree::Create(std::move(bounds));
  CHECK(tree.ok()) << tree.status().message();
  return std::move(tree).value();
}

void CapHosts(SlotTable& table, int32_t cap, std::span<const NodeIndex> survivors) {
  for (int32_t host = 0; host < table.tree().hosts(); ++host) {
    if (table.OnHost(host) > cap) table.Set(host, cap);
  }
  for (const NodeIndex node : survivors) {
    const auto host = static_cast<int32_t>(node);
    const auto here = static_cast<int32_t>(std::count(survivors.begin(), survivors.end(), node));
    table.Set(host, std::min(table.OnHost(host), std::max(0, cap - here)));
  }
}

}  // namespace longhaul::scheduler::internal
