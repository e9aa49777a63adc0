// XXH3-64 (libxxhash): the one hash for checksums, fingerprints and comparing runs.
#pragma once

#include <xxhash.h>

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

namespace longhaul {

inline uint64_t Hash64(const void* data, size_t bytes, uint64_t seed = 0) {
  return XXH3_64bits_withSeed(data, bytes, seed);
}
// A literal and a number are ambiguous: the number could be a size. Use std::string_view.
uint64_t Hash64(const char* text, size_t bytes_or_seed, uint64_t seed = 0) = delete;

inline uint64_t Hash64(std::string_view text, uint64_t seed = 0) {
  return XXH3_64bits_withSeed(text.data(), text.size(), seed);
}
inline uint64_t Hash64(std::span<const std::byte> bytes, uint64_t seed = 0) {
  return Hash64(bytes.data(), bytes.size(), seed);
}

}  // namespace longhaul
