// A shard: one rank's part of a checkpoint, in a file that any safetensors reader can read.
//
// The header's metadata has the hash of every chunk of every tensor, as in the arena's table
// (copy.h: XXH3-64 of the hashes of a MiB's 4 KiB blocks), and the places of parts in global
// tensors. So the header's hash represents the whole file, pieces can be read and verified one by
// one, and the hashes made at the snapshot protect the bytes until they are loaded again.
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

// The identity of a shard.
struct ShardId {
  uint64_t step = 0;
  uint64_t attempt = 0;
  uint32_t rank = 0;
  uint32_t world = 0;

  friend bool operator==(const ShardId&, const ShardId&) = default;
};

// The hashes of each tensor's chunks, in order; none for a tensor without bytes.
using ChunkHashes = std::vector<std::vector<uint64_t>>;

// Returns the number of chunks of a tensor of this size.
uint64_t ChunksIn(uint64_t bytes);

// Requires spans of at most the plan's limits.
ChunkHashes HashTensors(std::span<const std::span<const std::byte>> tensors);

// Returns the hash of a tensor: XXH3-64 of its chunks' hashes, eight bytes each in order.
uint64_t HashOfChunks(std::span<const uint64_t> chunks);

struct ShardHeader {
  ShardId id;
  StatePlan plan;                 // in the order of the data
  std::vector<uint64_t> offsets;  // of each tensor, from the file's start
  ChunkHashes chunks;
  uint64_t header_bytes = 0;  // where data begins
  uint64_t hash = 0;          // XXH3-64 of the header
};

// Returns the bytes before the data. Requires the hashes of HashTensors for the plan's sizes.
Result<std::string> EncodeShardHeader(const ShardId& id, const StatePlan& plan,
                                      const ChunkHashes& chunks);

// Returns kDataLoss with the reason unless EncodeShardHeader wrote the header for a file of
// `file_bytes`. Does not read the tensors' bytes.
Result<ShardHeader> ParseShardHeader(std::span<const std::byte> header, uint64_t file_bytes);

// Reads the header of a file. Returns kDataLoss when its hash is not that of `file`.
Result<ShardHeader> ReadShardHeader(const io::ReadableFile& opened, const PieceFile& file);

// Reads bytes [begin, begin + to.size()) of a tensor and verifies all chunks that they touch,
// including the rest of the first and the last one. Returns kDataLoss with tensor and chunk.
// Requires tensor < plan.size() and a range within it.
Status ReadVerified(const io::ReadableFile& opened, const ShardHeader& header, size_t tensor,
                    uint64_t begin, std::span<std::byte> to);

// Adds a shard's tensors and pieces to a manifest whose last file is the shard. Returns kDataLoss
// when it doesn't belong to the manifest or disagrees with another shard on a tensor.
Status AddPieces(const ShardHeader& header, Manifest& manifest);

}  // namespace longhaul::checkpoint
