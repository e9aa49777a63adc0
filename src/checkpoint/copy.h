// Copy and hash in one pass, the inner loop of snapshot and restore.
//
// A chunk is at most 1 MiB. Its hash is the XXH3-64 of its 4 KiB blocks' XXH3-64s, eight bytes a
// block in order; so a block is hashed while it is in the first-level cache, on its way through.
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

// To memory that isn't read soon: streams past the cache where the machine can. Requires `to`
// aligned to 64 bytes. Call FenceStores before telling anybody that the bytes are there.
uint64_t CopyChunkOut(std::byte* to, std::span<const std::byte> from);

// To memory that is used next. What is hashed is the copy.
uint64_t CopyChunkIn(std::byte* to, std::span<const std::byte> from);

// Every store before this is seen by others before any store after it.
void FenceStores();

// The copying of CopyChunkOut without the hash, any length: the floor that it is measured against.
void StreamCopy(std::byte* to, std::span<const std::byte> from);

// The builds of CopyChunkOut that this machine can run, slowest first: for tests and benchmarks.
struct CopyVariant {
  const char* name;
  uint64_t (*copy_out)(char* to, const char* from, size_t bytes);
};
std::vector<CopyVariant> CopyVariants();

}  // namespace longhaul::checkpoint
