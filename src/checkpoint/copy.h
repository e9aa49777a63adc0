// Copies and hashes in one pass: the inner loop of snapshot and restore.
//
// A chunk is at most 1 MiB. Its hash is the XXH3-64 of the XXH3-64s of its 4 KiB blocks, eight
// bytes for each block in order. So each block is hashed during its copy, while it is in the
// first-level cache.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace longhaul::checkpoint {

constexpr size_t kBlockBytes = 4096;
constexpr size_t kChunkBytes = 1u << 20;

// All require at most kChunkBytes and return the chunk's hash.

uint64_t HashChunk(std::span<const std::byte> chunk);

// Copies to memory that isn't read soon, with stores that bypass the cache where the machine has
// them. Requires `to` aligned to 64 bytes. Call FenceStores before publishing the bytes.
uint64_t CopyChunkOut(std::byte* to, std::span<const std::byte> from);

// Copies to memory that is used next. The hash is that of the copy.
uint64_t CopyChunkIn(std::byte* to, std::span<const std::byte> from);

// Orders stores: others see every store before this before any store after it.
void FenceStores();

// Copies as CopyChunkOut does, of any length and without the hash: the lower bound in its
// benchmark.
void StreamCopy(std::byte* to, std::span<const std::byte> from);

// The variants of CopyChunkOut that this machine can run, slowest first: for tests and benchmarks.
struct CopyVariant {
  const char* name;
  uint64_t (*copy_out)(char* to, const char* from, size_t bytes);
};
std::vector<CopyVariant> CopyVariants();

}  // namespace longhaul::checkpoint
