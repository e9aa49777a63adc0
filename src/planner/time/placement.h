// The places of a layout's groups on the GPUs: the number of ranks, and their distance.
//
// Dimensions fill the GPUs in the layout's order (spec::PlacementOrder), so the distance of a
// dimension's ranks is the product of the dimensions before it. Expert groups are counted through
// the ranks of one stage in the same order, expert_tensor innermost, as Megatron does. A group over
// two dimensions that are not neighbours has no single stride: it gets the one that puts the right
// number of its ranks into an island, because its collectives depend on that number.
#pragma once

#include "planner/time/collective_cost.h"
#include "spec/model/training.h"

namespace longhaul::planner {

Group TensorGroup(const spec::Layout& layout);
Group ContextGroup(const spec::Layout& layout);
Group ExpertGroup(const spec::Layout& layout);
// Two stages that send to each other.
Group StageNeighbours(const spec::Layout& layout);

// Groups whose ranks hold the same parameters: data x context; for experts the part of data x
// context x tensor that their groups leave.
Group DenseReplicas(const spec::Layout& layout, uint32_t island);
Group ExpertReplicas(const spec::Layout& layout);

}  // namespace longhaul::planner
