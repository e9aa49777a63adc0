// The copy loop, compiled once without vector extensions and once with AVX2.
//
// Everything here has internal linkage deliberately: if the linker shared an inline function
// between the two, machines without AVX2 would run AVX2 code.
#pragma once

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

namespace longhaul::checkpoint::internal {

constexpr size_t kLoopBlockBytes = 4096;
constexpr size_t kLoopMaxBlocks = 256;  // of a chunk

// Calls `visit(offset, bytes)` for each block; it returns the address at which the block is hashed.
// Returns the chunk's hash: XXH3-64 of the blocks' hashes.
template <typename Visit>
static inline uint64_t HashBlocks(size_t bytes, Visit visit) {
  uint64_t hashes[kLoopMaxBlocks];
  size_t blocks = 0;
  for (size_t at = 0; at < bytes; at += kLoopBlockBytes) {
    const size_t length = bytes - at < kLoopBlockBytes ? bytes - at : kLoopBlockBytes;
    hashes[blocks++] = visit(at, length);
  }
  return XXH3_64bits(hashes, blocks * sizeof(uint64_t));
}

static inline uint64_t LoopHash(const char* from, size_t bytes) {
  return HashBlocks(bytes,
                    [&](size_t at, size_t length) { return XXH3_64bits(from + at, length); });
}

static inline uint64_t LoopCopyIn(char* to, const char* from, size_t bytes) {
  return HashBlocks(bytes, [&](size_t at, size_t length) {
    memcpy(to + at, from + at, length);
    return XXH3_64bits(to + at, length);  // the copied bytes, still in the cache
  });
}

}  // namespace longhaul::checkpoint::internal
