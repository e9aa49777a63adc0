// Loads a rank's state from sealed snapshots in memory, of any layout.
//
// The snapshots are those of one step's ranks that can be reached: in arenas and copies on this
// node, and in other agents' memories, from which only the needed chunks are fetched. Together they
// form a catalog with the hashes made at the snapshot. A rank's boxes are read by plan: each needed
// byte once, and the chunk around it verified in a private copy. If several snapshots hold a box
// with the same bits, according to their hashes, a local one is read. A snapshot with a damaged
// chunk is not used any more; a replica replaces it, if there is one. Leaves out how arenas are
// obtained (worker API, agent, peer/).
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

// A rank's sealed snapshot, whose memory stays valid and pinned while it is read.
struct ReachedSnapshot {
  std::string where;  // unique, for messages: "rank 3's arena"
  ArenaReader::Hashed sealed;
  ChunkSource* source = nullptr;  // of the bytes; then `sealed.tensors` is empty
};

// Returns the catalog of the snapshots' contents, which points into their memory. Returns
// kInvalidArgument when they are not of one step and attempt, and kDataLoss when two disagree on a
// tensor. Missing elements are only detected when they are read.
Result<Catalog> CatalogOfSnapshots(std::span<const ReachedSnapshot> snapshots);

struct LoadedSnapshots {
  uint64_t bytes_needed = 0;         // of distinct elements
  uint64_t bytes_read = 0;           // whole chunks, including those of damaged snapshots
  uint64_t bytes_fetched = 0;        // part of bytes_read, from elsewhere
  std::vector<std::string> damaged;  // why snapshots were not used
  std::vector<size_t> left_out;      // their indexes, in the order of `damaged`
};

// Fills `memory` with the state of `plan`. If several snapshots hold an element, reads the first in
// the list, or a local one with the same bits. Returns kFailedPrecondition with a tensor of another
// shape or dtype, and kDataLoss with one that no good snapshot holds. After an error the contents
// of `memory` are undefined, and `loaded` lists the damaged snapshots. Requires spans of the plan's
// sizes.
Status LoadFromSnapshots(std::span<const ReachedSnapshot> snapshots, const StatePlan& plan,
                         std::span<const std::span<std::byte>> memory, LoadedSnapshots& loaded);

}  // namespace longhaul::checkpoint
