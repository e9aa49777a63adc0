// A shard: one rank's part of a checkpoint, in a file that any safetensors reader can read.
//
// The header's metadata holds the hash of every chunk of every tensor, as the arena's table does
// (copy.h: XXH3-64 of a MiB's 4 KiB blocks' hashes), and where parts of global tensors lie. So the
// hash of the header alone stands for the whole file, pieces can be read and verified one by one,
// and hashes made when training stopped for the copy hold until the bytes are loaded again.
// docs/checkpoint-format.md has the format to the byte.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "base/status.h"
#include "checkpoint/manifest.h"
#include "checkpoint/state.h"
#include "io/files/file.h"

namespace longhaul::checkpoint {

// Whose shard it is.
struct ShardId {
  uint64_t step = 0;
  uint64_t attempt = 0;
  uint32_t rank = 0;
  uint32_t world = 0;

  friend bool operator==(const ShardId&, const ShardId&) = default;
};

// The hashes of each tensor's chunks, in order; none for a tensor without bytes.
using ChunkHashes = std::vector<std::vector<uint64_t>>;

// How many chunks a tensor of so many bytes has.
uint64_t ChunksIn(uint64_t bytes);

// Requires spans of at most the plan's limits.
ChunkHashes HashTensors(std::span<const std::span<const std::byte>> tensors);

// The hash that stands for a tensor: XXH3-64 of its chunks' hashes, eight bytes each in order.
uint64_t HashOfChunks(std::span<const uint64_t> chunks);

struct ShardHeader {
  ShardId id;
  StatePlan plan;                 // in the order of the data
  std::vector<uint64_t> offsets;  // of each tensor, from the file's start
  ChunkHashes chunks;
  uint64_t header_bytes = 0;  // where data begins
  uint64_t hash = 0;          // XXH3-64 of the header
};

// What stands before the data. Requires hashes as HashTensors gives them for the plan's sizes.
Result<std::string> EncodeShardHeader(const ShardId& id, const StatePlan& plan,
                                      const ChunkHashes& chunks);

// kDataLoss with the reason when it isn't a header that EncodeShardHeader wrote for a file of
// `file_bytes`. The tensors' bytes aren't looked at.
Result<ShardHeader> ParseShardHeader(std::span<const std::byte> header, uint64_t file_bytes);

// Reads the header of a file. kDataLoss when it isn't the one that `file` names.
Result<ShardHeader> ReadShardHeader(const io::ReadableFile& opened, const PieceFile& file);

// Reads bytes [begin, begin + to.size()) of a tensor and verifies every chunk that they touch; the
// ends of the first and last chunk are read beside when the range cuts them. kDataLoss naming
// tensor and chunk. Requires tensor < plan.size() and a range within it.
Status ReadVerified(const io::ReadableFile& opened, const ShardHeader& header, size_t tensor,
                    uint64_t begin, std::span<std::byte> to);

// Adds a shard's tensors and pieces to a manifest that has its file already, as the last one.
// kDataLoss when it doesn't belong to the manifest or disagrees with another shard on a tensor.
Status AddPieces(const ShardHeader& header, Manifest& manifest);

}  // namespace longhaul::checkpoint
