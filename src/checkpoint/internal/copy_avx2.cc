// Compiled with -mavx2. Includes no C++ library header, whose inline functions the linker might
// share with the rest of the program.
#include "checkpoint/internal/copy_avx2.h"

#include <immintrin.h>

#include "checkpoint/internal/copy_loop.h"

namespace longhaul::checkpoint::internal {
namespace {

// Past the cache. Requires `to` aligned to 32 bytes.
inline void Stream(char* to, const char* from, size_t bytes) {
  size_t at = 0;
  for (; at + 128 <= bytes; at += 128) {
    const __m256i* source = reinterpret_cast<const __m256i*>(from + at);
    __m256i* target = reinterpret_cast<__m256i*>(to + at);
    const __m256i a = _mm256_loadu_si256(source);
    const __m256i b = _mm256_loadu_si256(source + 1);
    const __m256i c = _mm256_loadu_si256(source + 2);
    const __m256i d = _mm256_loadu_si256(source + 3);
    _mm256_stream_si256(target, a);
    _mm256_stream_si256(target + 1, b);
    _mm256_stream_si256(target + 2, c);
    _mm256_stream_si256(target + 3, d);
  }
  memcpy(to + at, from + at, bytes - at);
}

}  // namespace

uint64_t HashAvx2(const char* from, size_t bytes) { return LoopHash(from, bytes); }
uint64_t CopyInAvx2(char* to, const char* from, size_t bytes) {
  return LoopCopyIn(to, from, bytes);
}
void StreamAvx2(char* to, const char* from, size_t bytes) { Stream(to, from, bytes); }

uint64_t CopyOutAvx2(char* to, const char* from, size_t bytes) {
  return HashBlocks(bytes, [&](size_t at, size_t length) {
    const uint64_t hash = XXH3_64bits(from + at, length);  // brings the block into L1
    Stream(to + at, from + at, length);
    return hash;
  });
}

}  // namespace longhaul::checkpoint::internal
