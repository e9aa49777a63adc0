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

// XXH3-64 of a whole block, computed from the registers that are being streamed out: the hash takes
// the time that the stores wait for memory. The algorithm for inputs above 240 bytes, as the xxHash
// specification gives it: eight 64-bit accumulators take stripes of 64 bytes, each xored with a
// window of the secret that moves by 8 bytes a stripe; they are scrambled after every 1,024 bytes;
// the last stripe uses a window of its own. The library merges them.
constexpr size_t kStripe = 64;
constexpr size_t kStripesARound = 16;
constexpr size_t kRounds = kLoopBlockBytes / (kStripe * kStripesARound);
constexpr size_t kSecretStep = 8;
constexpr size_t kScrambleAt = sizeof(XXH3_kSecret) - kStripe;
constexpr size_t kLastStripeAt = sizeof(XXH3_kSecret) - kStripe - 7;
constexpr size_t kMergeAt = 11;
static_assert(sizeof(XXH3_kSecret) == kStripe + kSecretStep * kStripesARound);

inline __m256i SecretAt(size_t at) {
  return _mm256_loadu_si256(reinterpret_cast<const __m256i*>(XXH3_kSecret + at));
}

inline __m256i Accumulate(__m256i sums, __m256i data, __m256i secret) {
  const __m256i keyed = _mm256_xor_si256(data, secret);
  const __m256i product = _mm256_mul_epu32(keyed, _mm256_srli_epi64(keyed, 32));
  const __m256i neighbours = _mm256_shuffle_epi32(data, _MM_SHUFFLE(1, 0, 3, 2));
  return _mm256_add_epi64(product, _mm256_add_epi64(sums, neighbours));
}

inline __m256i Scramble(__m256i sums, __m256i secret) {
  const __m256i prime = _mm256_set1_epi64x(XXH_PRIME32_1);
  const __m256i mixed =
      _mm256_xor_si256(_mm256_xor_si256(sums, _mm256_srli_epi64(sums, 47)), secret);
  const __m256i low = _mm256_mul_epu32(mixed, prime);
  const __m256i high = _mm256_mul_epu32(_mm256_srli_epi64(mixed, 32), prime);
  return _mm256_add_epi64(low, _mm256_slli_epi64(high, 32));
}

// Requires `to` aligned to 32 bytes.
uint64_t StreamBlock(char* to, const char* from) {
  alignas(32) uint64_t sums[8] = {XXH_PRIME32_3, XXH_PRIME64_1, XXH_PRIME64_2, XXH_PRIME64_3,
                                  XXH_PRIME64_4, XXH_PRIME32_2, XXH_PRIME64_5, XXH_PRIME32_1};
  __m256i low = _mm256_load_si256(reinterpret_cast<__m256i*>(sums));
  __m256i high = _mm256_load_si256(reinterpret_cast<__m256i*>(sums) + 1);
  for (size_t round = 0; round < kRounds; ++round) {
    // Two stripes at once, all loads before all stores: measured fastest.
    for (size_t stripe = 0; stripe < kStripesARound; stripe += 2) {
      const size_t at = (round * kStripesARound + stripe) * kStripe;
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
      const size_t first = stripe * kSecretStep;
      const bool last = at + 2 * kStripe == kLoopBlockBytes;
      const size_t second = last ? kLastStripeAt : first + kSecretStep;
      low = Accumulate(low, a, SecretAt(first));
      high = Accumulate(high, b, SecretAt(first + 32));
      low = Accumulate(low, c, SecretAt(second));
      high = Accumulate(high, d, SecretAt(second + 32));
    }
    if (round + 1 == kRounds) break;
    low = Scramble(low, SecretAt(kScrambleAt));
    high = Scramble(high, SecretAt(kScrambleAt + 32));
  }
  _mm256_store_si256(reinterpret_cast<__m256i*>(sums), low);
  _mm256_store_si256(reinterpret_cast<__m256i*>(sums) + 1, high);
  return XXH3_mergeAccs(sums, XXH3_kSecret + kMergeAt, kLoopBlockBytes * XXH_PRIME64_1);
}

}  // namespace

uint64_t HashAvx2(const char* from, size_t bytes) { return LoopHash(from, bytes); }
uint64_t CopyInAvx2(char* to, const char* from, size_t bytes) {
  return LoopCopyIn(to, from, bytes);
}
void StreamAvx2(char* to, const char* from, size_t bytes) { Stream(to, from, bytes); }

uint64_t CopyOutAvx2(char* to, const char* from, size_t bytes) {
  return HashBlocks(bytes, [&](size_t at, size_t length) {
    if (length == kLoopBlockBytes) return StreamBlock(to + at, from + at);
    const uint64_t hash = XXH3_64bits(from + at, length);
    Stream(to + at, from + at, length);
    return hash;
  });
}

}  // namespace longhaul::checkpoint::internal
