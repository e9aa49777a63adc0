// Chunks of a snapshot that lies elsewhere: in another agent's memory.
//
// Who reads says first which chunks it will ask for, and then asks for them in that order, so that
// all of them are under way at once. Leaves out verifying: who reads has their hashes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "base/status.h"

namespace longhaul::checkpoint {

// A chunk of at most kChunkBytes, by the plan's tensor and its place in it.
struct ChunkId {
  uint32_t tensor = 0;
  uint32_t chunk = 0;

  friend bool operator==(const ChunkId&, const ChunkId&) = default;
};

class ChunkSource {
 public:
  virtual ~ChunkSource() = default;
  // What the next reads will ask for; what was expected before is void. Requires that all of that
  // was read, or none.
  virtual void Expect(std::vector<ChunkId> chunks) = 0;
  // Fills `to`, whose size is the chunk's. Requires the next chunk of those expected. After an
  // error, or data that is not what it should be, the source is not used any more.
  virtual Status Read(ChunkId chunk, std::span<std::byte> to) = 0;
};

}  // namespace longhaul::checkpoint
