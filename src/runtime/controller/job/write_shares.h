// Which rank writes which part of a snapshot: one of the ranks that hold the same state.
//
// With a model in parts, the data-parallel replicas of a part hold the same boxes with the same
// bits. The agents report two hashes of each rank: that of the plan (which boxes) and the root over
// every chunk's hash (which bits). So the layout need not be known. Ranks that should be equal but
// aren't are each written, as are ranks without hashes. The pieces are distributed over the nodes
// that hold them, the largest first, each to the node with the fewest bytes so far. Leaves out
// tensors that parts share (norms, tied embeddings): each part writes them.
#pragma once

#include <cstdint>
#include <vector>

#include "proto/events.pb.h"

namespace longhaul::runtime {

// The contents by rank; without hashes (root 0 and plan 0) the content is unknown.
using RankContents = std::vector<proto::RankContent>;

// For each rank: the lowest rank with an equal content, which may be the rank itself.
std::vector<uint32_t> FirstAlike(const RankContents& contents);

// Returns the ranks that each node writes, by place, in order. Requires ranks_per_node >= 1 that
// divides the number of ranks.
std::vector<std::vector<uint32_t>> ShareOut(const RankContents& contents, uint32_t ranks_per_node);

// Returns for each rank of `written` the other ranks, not in `written`, that its content serves, in
// order. The lowest equal rank in `written` serves each. Requires that `written` has ranks of
// `contents`, without repetition.
std::vector<std::vector<uint32_t>> AlsoServed(const RankContents& contents,
                                              const std::vector<uint32_t>& written);

}  // namespace longhaul::runtime
