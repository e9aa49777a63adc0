// Compiled with AVX-512. Includes no C++ library header, whose inline functions the linker might
// share with the rest of the program.
#include "checkpoint/internal/copy_avx512.h"

#include <immintrin.h>

#include "checkpoint/internal/copy_loop.h"

namespace longhaul::checkpoint::internal {
namespace {

constexpr size_t kStripe = 64;  // of XXH3, a cache line and a register

// Past the cache. Requires `to` aligned to 64 bytes.
inline void Stream(char* to, const char* from, size_t bytes) {
  size_t at = 0;
  for (; at + 2 * kStripe <= bytes; at += 2 * kStripe) {
    const __m512i a = _mm512_loadu_si512(from + at);
    const __m512i b = _mm512_loadu_si512(from + at + kStripe);
    _mm512_stream_si512(reinterpret_cast<__m512i*>(to + at), a);
    _mm512_stream_si512(reinterpret_cast<__m512i*>(to + at + kStripe), b);
  }
  memcpy(to + at, from + at, bytes - at);
}

// XXH3-64 of a whole block from the registers that are being streamed out, as in copy_avx2.cc: here
// the eight accumulators are one register, and a stripe costs half the instructions.
constexpr size_t kStripesARound = 16;
constexpr size_t kRounds = kLoopBlockBytes / (kStripe * kStripesARound);
constexpr size_t kSecretStep = 8;
constexpr size_t kScrambleAt = sizeof(XXH3_kSecret) - kStripe;
constexpr size_t kLastStripeAt = sizeof(XXH3_kSecret) - kStripe - 7;
constexpr size_t kMergeAt = 11;
static_assert(sizeof(XXH3_kSecret) == kStripe + kSecretStep * kStripesARound);

inline __m512i Accumulate(__m512i sums, __m512i data, size_t secret_at) {
  const __m512i keyed = _mm512_xor_si512(data, _mm512_loadu_si512(XXH3_kSecret + secret_at));
  const __m512i product = _mm512_mul_epu32(keyed, _mm512_srli_epi64(keyed, 32));
  const auto kSwap = static_cast<_MM_PERM_ENUM>(_MM_SHUFFLE(1, 0, 3, 2));
  return _mm512_add_epi64(product, _mm512_add_epi64(sums, _mm512_shuffle_epi32(data, kSwap)));
}

inline __m512i Scramble(__m512i sums) {
  const __m512i prime = _mm512_set1_epi64(XXH_PRIME32_1);
  const __m512i secret = _mm512_loadu_si512(XXH3_kSecret + kScrambleAt);
  const __m512i mixed =
      _mm512_xor_si512(_mm512_xor_si512(sums, _mm512_srli_epi64(sums, 47)), secret);
  const __m512i low = _mm512_mul_epu32(mixed, prime);
  const __m512i high = _mm512_mul_epu32(_mm512_srli_epi64(mixed, 32), prime);
  return _mm512_add_epi64(low, _mm512_slli_epi64(high, 32));
}

// Requires `to` aligned to 64 bytes.
uint64_t StreamBlock(char* to, const char* from) {
  alignas(64) uint64_t sums[8] = {XXH_PRIME32_3, XXH_PRIME64_1, XXH_PRIME64_2, XXH_PRIME64_3,
                                  XXH_PRIME64_4, XXH_PRIME32_2, XXH_PRIME64_5, XXH_PRIME32_1};
  __m512i all = _mm512_load_si512(sums);
  for (size_t round = 0; round < kRounds; ++round) {
    for (size_t stripe = 0; stripe < kStripesARound; stripe += 2) {
      const size_t at = (round * kStripesARound + stripe) * kStripe;
      const __m512i a = _mm512_loadu_si512(from + at);
      const __m512i b = _mm512_loadu_si512(from + at + kStripe);
      _mm512_stream_si512(reinterpret_cast<__m512i*>(to + at), a);
      _mm512_stream_si512(reinterpret_cast<__m512i*>(to + at + kStripe), b);
      const size_t first = stripe * kSecretStep;
      const bool last = at + 2 * kStripe == kLoopBlockBytes;
      all = Accumulate(all, a, first);
      all = Accumulate(all, b, last ? kLastStripeAt : first + kSecretStep);
    }
    if (round + 1 < kRounds) all = Scramble(all);
  }
  _mm512_store_si512(sums, all);
  return XXH3_mergeAccs(sums, XXH3_kSecret + kMergeAt, kLoopBlockBytes * XXH_PRIME64_1);
}

}  // namespace

void StreamAvx512(char* to, const char* from, size_t bytes) { Stream(to, from, bytes); }

uint64_t CopyOutAvx512(char* to, const char* from, size_t bytes) {
  return HashBlocks(bytes, [&](size_t at, size_t length) {
    if (length == kLoopBlockBytes) return StreamBlock(to + at, from + at);
    const uint64_t hash = XXH3_64bits(from + at, length);
    Stream(to + at, from + at, length);
    return hash;
  });
}

}  // namespace longhaul::checkpoint::internal
