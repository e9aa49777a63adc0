// Which bytes of which files make the shards that are wanted: any layout from any other.
//
// Every wanted element is taken from the first saved shard that holds it, so what several wanted
// shards share is read once, and copies of replicated tensors are not read at all. The plan is
// exact: the bytes read are the bytes needed, unless small gaps are allowed between reads.
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

// A shard that somebody wants in memory, row-major.
struct WantedShard {
  uint32_t tensor = 0;
  Box box;
};

// One stretch of a file. Reads are sorted by file and offset and never overlap.
struct Read {
  uint32_t file = 0;
  uint64_t offset = 0;
  uint64_t bytes = 0;
  size_t first_copy = 0;  // its copies are [first_copy, first_copy + copies)
  size_t copies = 0;
};

// Where bytes of a read go.
struct Copy {
  uint64_t from = 0;  // from the read's first byte
  uint64_t bytes = 0;
  uint32_t wanted = 0;  // index of the wanted shard
  uint64_t to = 0;      // from its first byte
};

struct ReadPlan {
  std::vector<Read> reads;
  std::vector<Copy> copies;
  uint64_t bytes_read = 0;
  uint64_t bytes_needed = 0;  // of distinct elements
  uint64_t bytes_wanted = 0;  // over all wanted shards
};

// `element_bytes` and `names` are of the global tensors. Reads at most `largest_gap` bytes apart
// become one. kDataLoss naming the tensor and the first box that no saved shard holds.
// Requires indexes within `element_bytes`, boxes of a tensor with the same number of dimensions.
Result<ReadPlan> PlanReads(std::span<const SavedShard> saved, std::span<const WantedShard> wanted,
                           std::span<const uint64_t> element_bytes,
                           std::span<const std::string> names, uint64_t largest_gap = 0);

}  // namespace longhaul::checkpoint
