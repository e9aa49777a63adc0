// Who writes what of a snapshot: of ranks that hold the same state, one.
//
// With a model in parts, the data-parallel replicas of a part hold the same boxes with the same
// bits. Their agents have said so: the hash of the plan (which boxes) and the root over every
// chunk's hash (which bits) of each rank. So nothing has to be known of the layout, and ranks that
// should be alike but aren't are each written, as are ranks of which nothing is known. The pieces
// are dealt over the nodes that hold them, the largest first, each to the node with the least to
// write so far. Left out: tensors that parts share (norms, tied embeddings), which each part
// writes.
#pragma once

#include <cstdint>
#include <vector>

#include "proto/events.pb.h"

namespace longhaul::runtime {

// A rank's content, by rank; without hashes (root 0 and plan 0) nothing is known of it.
using RankContents = std::vector<proto::RankContent>;

// By rank: the lowest one that is known to hold the same; itself when there is none below.
std::vector<uint32_t> FirstAlike(const RankContents& contents);

// The ranks that each node writes, by place, in order. Requires ranks_per_node >= 1 that divides
// the number of ranks.
std::vector<std::vector<uint32_t>> ShareOut(const RankContents& contents, uint32_t ranks_per_node);

// By place in `written`: the ranks that aren't there and whose content that rank's is, in order.
// Each goes to the lowest one alike. Requires ranks of `contents`, none twice.
std::vector<std::vector<uint32_t>> AlsoServed(const RankContents& contents,
                                              const std::vector<uint32_t>& written);

}  // namespace longhaul::runtime
