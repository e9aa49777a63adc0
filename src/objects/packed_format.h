// A packed file's blocks and table, as bytes. Pure: implements docs/packed-shards.md.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/status.h"

namespace longhaul::objects {

// A block of the file in its stored form.
struct PackedBlock {
  uint32_t bytes = 0;   // of the file
  uint32_t stored = 0;  // of the frame; equal to `bytes` when the block is stored unpacked
  uint32_t stride = 0;  // bytes were sorted by position in numbers of this size; 0: not sorted
  uint64_t hash = 0;    // XXH3-64 of the stored bytes

  friend bool operator==(const PackedBlock&, const PackedBlock&) = default;
};

constexpr size_t kPackedEntryBytes = 24;
constexpr size_t kPackedTrailerBytes = 64;

// The last bytes of a packed file.
struct PackedTrailer {
  uint64_t bytes = 0;  // of the file
  uint64_t blocks = 0;
  uint64_t stored = 0;  // of all frames: where the table begins
  uint64_t table_hash = 0;
};

// Encodes the table and the trailer.
std::string EncodePackedEnd(const std::vector<PackedBlock>& blocks);

// kDataLoss with the reason when it is no trailer, or not of a packed file of `packed_bytes` bytes.
Result<PackedTrailer> ParsePackedTrailer(std::span<const std::byte> trailer, uint64_t packed_bytes);
// Requires blocks * kPackedEntryBytes bytes.
Result<std::vector<PackedBlock>> ParsePackedTable(std::span<const std::byte> table,
                                                  const PackedTrailer& trailer);

// Packs blocks one after the other. Not thread-safe.
class Packer {
 public:
  Packer();
  ~Packer();
  Packer(const Packer&) = delete;
  Packer& operator=(const Packer&) = delete;

  // The stored bytes, valid until the next call. Requires 1 to kPackedBlockBytes bytes.
  struct Packed {
    PackedBlock block;
    std::span<const std::byte> stored;
  };
  Packed Pack(std::span<const std::byte> block);

 private:
  struct Context;
  std::unique_ptr<Context> context_;
};

// Unpacks blocks. Not thread-safe.
class Unpacker {
 public:
  Unpacker();
  ~Unpacker();
  Unpacker(const Unpacker&) = delete;
  Unpacker& operator=(const Unpacker&) = delete;

  // kDataLoss with the reason. Requires stored.size() == block.stored and to.size() == block.bytes.
  Status Unpack(const PackedBlock& block, std::span<const std::byte> stored,
                std::span<std::byte> to);

 private:
  struct Context;
  std::unique_ptr<Context> context_;
};

}  // namespace longhaul::objects
