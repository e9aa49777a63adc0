// A rank's state out of sealed snapshots in memory, whatever layout sealed them.
//
// The snapshots are those of one step's ranks as far as they can be reached: in arenas and copies
// on this node, and in other agents' memories, from where only the chunks that are needed come.
// Together they are a catalog whose chunks carry the hashes made when training stopped for the
// copy; a rank's boxes are read by plan, each byte needed once, each chunk around them verified in
// a copy that nobody else writes. Of snapshots that hold a box bit by bit alike, as their hashes
// say, one that is here is read. A snapshot with a damaged chunk is left out from then on: what it
// held comes from a replica, if there is one. Leaves out getting hold of the arenas (worker API,
// agent, peer/).
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "base/status.h"
#include "checkpoint/arena.h"
#include "checkpoint/chunk_source.h"
#include "checkpoint/formats/catalog.h"
#include "checkpoint/state.h"

namespace longhaul::checkpoint {

// A rank's sealed snapshot; its memory stays and is pinned while it is read.
struct ReachedSnapshot {
  std::string where;  // for messages, each its own: "rank 3's arena"
  ArenaReader::Hashed sealed;
  ChunkSource* source = nullptr;  // of the bytes; then `sealed.tensors` is empty
};

// What the snapshots hold together. kInvalidArgument when they are not of one step and attempt;
// kDataLoss when two disagree on a tensor. That every element is there is not asked: what is
// missing shows when it is read. The catalog points into the snapshots' memory.
Result<Catalog> CatalogOfSnapshots(std::span<const ReachedSnapshot> snapshots);

struct LoadedSnapshots {
  uint64_t bytes_needed = 0;         // of distinct elements
  uint64_t bytes_read = 0;           // whole chunks; those of a damaged snapshot too
  uint64_t bytes_fetched = 0;        // of them, from elsewhere
  std::vector<std::string> damaged;  // why snapshots were left out
  std::vector<size_t> left_out;      // which, as `damaged` has them
};

// Fills `memory` with what `plan` says; of several that hold an element the first in the list is
// read, or one that is like it and here. kFailedPrecondition naming what is of another shape or
// dtype, kDataLoss naming what no good snapshot holds; after an error the memory holds anything,
// and `loaded` says which snapshots were no good. Requires spans of the plan's sizes.
Status LoadFromSnapshots(std::span<const ReachedSnapshot> snapshots, const StatePlan& plan,
                         std::span<const std::span<std::byte>> memory, LoadedSnapshots& loaded);

}  // namespace longhaul::checkpoint
