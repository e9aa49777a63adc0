// For each shape asked for, how many of its tasks every host could take now (gang/slot_table.h).
//
// A table follows the state lazily: when it is asked for, it looks again at the hosts that changed
// since, rolled back changes included. A value: copies follow copies of the state.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "scheduler/gang/slot_table.h"
#include "scheduler/state/state.h"

namespace longhaul::scheduler::internal {

// Which nodes count beside the ready ones.
enum class Admit : uint8_t { kReady, kSuspectToo, kSpareToo };

class SlotTables {
 public:
  // `tree` outlives this.
  explicit SlotTables(const DomainTree& tree) : tree_(&tree) {}

  // The table as `state` is now. Valid until the next call that changes or asks for anything.
  const SlotTable& Of(const State& state, ShapeId shape, Admit admit);

 private:
  struct Entry {
    ShapeId shape{};
    Admit admit = Admit::kReady;
    uint64_t seen = 0;  // changes of the state
    SlotTable table;
  };

  const DomainTree* tree_;
  std::vector<Entry> entries_;
  std::vector<std::vector<int32_t>> index_;  // [admit][shape]: an entry, or -1
};

// Whether nodes in this node's condition count.
bool Admitted(const State& state, NodeIndex node, Admit admit);

// The slots that a table of this kind has for one node. Requires 1 <= limit.
int32_t SlotsFor(const State& state, NodeIndex node, ShapeId shape, Admit admit, int32_t limit);

// The most tasks of the shape that any one node of the cluster could take, 1 at least, 1024 at
// most: the bound of its table.
int32_t MostSlots(const State& state, ShapeId shape);

// Lowers the slots of each host to `cap`, less the entries of `survivors` that name the host: for
// groups with at most `cap` tasks on a host, some of which run already.
void CapHosts(SlotTable& table, int32_t cap, std::span<const NodeIndex> survivors);

// The network's tiers of a topology: its levels without the last, which is the whole cluster; when
// there is no other, the cluster as one leaf.
DomainTree TreeOf(const spec::Topology& topology);

}  // namespace longhaul::scheduler::internal
