// Where the groups of a layout lie on the GPUs: how many ranks, and how far apart.
//
// Dimensions fill the GPUs in the layout's order (spec::PlacementOrder), so a dimension's ranks
// lie the product of those before it apart. Expert groups are counted through the ranks of one
// stage in the same order, expert_tensor innermost, as Megatron does. A group over two dimensions
// that are not neighbours has no one stride: it gets the one that puts the right number of its
// ranks into an island, which is what its collectives depend on.
#pragma once

#include "planner/time/collective_cost.h"
#include "spec/model/training.h"

namespace longhaul::planner {

Group TensorGroup(const spec::Layout& layout);
Group ContextGroup(const spec::Layout& layout);
Group ExpertGroup(const spec::Layout& layout);
// Two stages that send to each other.
Group StageNeighbours(const spec::Layout& layout);

// Groups whose ranks hold the same parameters: data x context; for experts what their groups leave
// of data x context x tensor.
Group DenseReplicas(const spec::Layout& layout, uint32_t island);
Group ExpertReplicas(const spec::Layout& layout);

}  // namespace longhaul::planner
