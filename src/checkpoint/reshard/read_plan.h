// Plans which bytes of which files to read for the wanted shards: from any layout to any other.
//
// Each wanted element is taken from the first saved shard that holds it. So the common part of
// several wanted shards is read once, and further copies of replicated tensors are not read. The
// plan is exact: it reads only needed bytes, unless small gaps between reads are allowed.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "base/status.h"
#include "checkpoint/reshard/box.h"

namespace longhaul::checkpoint {

// A shard in a file.
struct SavedShard {
  uint32_t tensor = 0;  // index of the global tensor
  Box box;              // inside its shape
  uint32_t file = 0;
  uint64_t file_offset = 0;  // of its first byte
};

// A shard that is wanted in memory, row-major.
struct WantedShard {
  uint32_t tensor = 0;
  Box box;
};

// One range of a file. Reads are sorted by file and offset and never overlap.
struct Read {
  uint32_t file = 0;
  uint64_t offset = 0;
  uint64_t bytes = 0;
  size_t first_copy = 0;  // its copies are [first_copy, first_copy + copies)
  size_t copies = 0;
};

// The destination of bytes of a read.
struct Copy {
  uint64_t from = 0;  // offset in the read
  uint64_t bytes = 0;
  uint32_t wanted = 0;  // index of the wanted shard
  uint64_t to = 0;      // offset in the shard
};

struct ReadPlan {
  std::vector<Read> reads;
  std::vector<Copy> copies;
  uint64_t bytes_read = 0;
  uint64_t bytes_needed = 0;  // of distinct elements
  uint64_t bytes_wanted = 0;  // over all wanted shards
};

// `element_bytes` and `names` are those of the global tensors. Merges reads at most `largest_gap`
// bytes apart. Returns kDataLoss with the tensor and the first box that no saved shard holds.
// Requires indexes within `element_bytes`, and boxes of a tensor with the same number of
// dimensions.
Result<ReadPlan> PlanReads(std::span<const SavedShard> saved, std::span<const WantedShard> wanted,
                           std::span<const uint64_t> element_bytes,
                           std::span<const std::string> names, uint64_t largest_gap = 0);

}  // namespace longhaul::checkpoint
