// A source of chunks of a snapshot in another agent's memory.
//
// The reader first announces the chunks that it will read, then reads them in that order, so that
// all of them are under way at once. Leaves out verification: the reader has the hashes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "base/status.h"

namespace longhaul::checkpoint {

// A chunk of at most kChunkBytes, by the plan's tensor and its index in it.
struct ChunkId {
  uint32_t tensor = 0;
  uint32_t chunk = 0;

  friend bool operator==(const ChunkId&, const ChunkId&) = default;
};

class ChunkSource {
 public:
  virtual ~ChunkSource() = default;
  // Announces the next reads and replaces the earlier announcement. Requires that all or none of
  // the earlier chunks were read.
  virtual void Expect(std::vector<ChunkId> chunks) = 0;
  // Fills `to`, whose size is the chunk's. Requires the next announced chunk. After an error, or
  // data that fails its hash, the source must not be used again.
  virtual Status Read(ChunkId chunk, std::span<std::byte> to) = 0;
};

}  // namespace longhaul::checkpoint
