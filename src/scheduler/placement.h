// Where a gang goes: all of its nodes at once, or none and the reason.
//
// Deterministic: the answer depends on the set of nodes alone, not on the order in which they are
// given. The choice, first version:
//   1. one domain (a rack, a switch) that holds the whole gang, the one with the fewest nodes that
//      qualify; else the whole cluster;
//   2. in it the nodes with the fewest free slots left over (best fit), ties by name, naturally
//      ordered: node-2 before node-10.
// Leaves out queues, priorities, preemption and reservations.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/ids.h"
#include "base/status.h"

namespace longhaul::scheduler {

// What placement sees of a node.
struct NodeView {
  NodeId name;
  uint32_t free_slots = 0;
  bool usable = true;               // connected and not cordoned
  std::string domain;               // nodes with the same one are near; all empty: not known
  std::optional<uint32_t> slots{};  // with nothing running; absent: not known, taken as enough
  std::string why_unusable{};       // "disconnected", "cordoned", for messages
};

// The nodes of a gang that takes `slots_per_node` slots on each of `count` nodes, in natural order
// of their names: the node with node rank 0 first.
// Refuses with kResourceExhausted when it may fit later (nodes are busy, cordoned or disconnected),
// with kFailedPrecondition when the cluster could not hold it even with nothing running. The
// message counts the nodes that qualify and says why others don't.
// Requires count >= 1 and slots_per_node >= 1, and names that differ.
Result<std::vector<NodeId>> PlaceGang(std::span<const NodeView> nodes, uint32_t count,
                                      uint32_t slots_per_node);

// A node for the place of `lost` in `gang`: none of the others, near to `lost` where possible, then
// as above. `lost` itself qualifies again once it is usable and free. Fails as PlaceGang does.
// Requires slots >= 1 and that `gang` contains `lost`.
Result<NodeId> ReplaceNode(std::span<const NodeView> nodes, std::span<const NodeId> gang,
                           const NodeId& lost, uint32_t slots);

}  // namespace longhaul::scheduler
