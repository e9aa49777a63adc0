// Compiled with AVX-512. Includes no C++ library header, whose inline functions the linker might
// share with the rest of the program.
#include "checkpoint/internal/copy_avx512.h"

#include <immintrin.h>

#include "checkpoint/internal/copy_loop.h"

namespace longhaul::checkpoint::internal {
namespace {

constexpr size_t kStripe = 64;  // of XXH3, a cache line and a register

inline __m512i Load(const void* from) { return _mm512_loadu_si512(from); }
inline void StreamOne(char* to, __m512i value) {
  _mm512_stream_si512(reinterpret_cast<__m512i*>(to), value);
}

// Past the cache. Requires `to` aligned to 64 bytes. Four lines at once: measured fastest of one to
// sixteen, with and without prefetching, and of two or four pages side by side.
inline void Stream(char* to, const char* from, size_t bytes) {
  size_t at = 0;
  for (; at + 4 * kStripe <= bytes; at += 4 * kStripe) {
    const __m512i a = Load(from + at);
    const __m512i b = Load(from + at + kStripe);
    const __m512i c = Load(from + at + 2 * kStripe);
    const __m512i d = Load(from + at + 3 * kStripe);
    StreamOne(to + at, a);
    StreamOne(to + at + kStripe, b);
    StreamOne(to + at + 2 * kStripe, c);
    StreamOne(to + at + 3 * kStripe, d);
  }
  for (; at + kStripe <= bytes; at += kStripe) StreamOne(to + at, Load(from + at));
  memcpy(to + at, from + at, bytes - at);
}

// XXH3-64 of a whole block from the registers that are being streamed out, as in copy_avx2.cc: here
// the eight accumulators are one register. In the library's table all windows of the secret but one
// straddle two cache lines, and to load those for every stripe takes the ports that the data needs:
// they get a line each. The data itself is added up apart and its halves change places once a round
// instead of once a stripe, which is the same sum.
constexpr size_t kStripesARound = 16;
constexpr size_t kRounds = kLoopBlockBytes / (kStripe * kStripesARound);
constexpr size_t kSecretStep = 8;
constexpr size_t kScrambleAt = sizeof(XXH3_kSecret) - kStripe;
constexpr size_t kLastStripeAt = sizeof(XXH3_kSecret) - kStripe - 7;
constexpr size_t kMergeAt = 11;
static_assert(sizeof(XXH3_kSecret) == kStripe + kSecretStep * kStripesARound);

// The windows of the secret, each in a cache line of its own.
struct Secrets {
  Secrets() {
    for (size_t i = 0; i < kStripesARound; ++i) {
      memcpy(stripe[i], XXH3_kSecret + i * kSecretStep, kStripe);
    }
    memcpy(last, XXH3_kSecret + kLastStripeAt, kStripe);
    memcpy(scramble, XXH3_kSecret + kScrambleAt, kStripe);
    asm volatile("" : "+m"(*this));  // or the compiler would read the library's table after all
  }
  alignas(kStripe) char stripe[kStripesARound][kStripe];
  char last[kStripe];      // of a block's last stripe
  char scramble[kStripe];  // between rounds
};

inline __m512i Product(__m512i data, const char* secret) {
  const __m512i keyed = _mm512_xor_si512(data, _mm512_load_si512(secret));
  return _mm512_mul_epu32(keyed, _mm512_srli_epi64(keyed, 32));
}

inline __m512i Scramble(__m512i sums, const char* secret) {
  const __m512i prime = _mm512_set1_epi64(XXH_PRIME32_1);
  const __m512i mixed = _mm512_xor_si512(_mm512_xor_si512(sums, _mm512_srli_epi64(sums, 47)),
                                         _mm512_load_si512(secret));
  const __m512i low = _mm512_mul_epu32(mixed, prime);
  const __m512i high = _mm512_mul_epu32(_mm512_srli_epi64(mixed, 32), prime);
  return _mm512_add_epi64(low, _mm512_slli_epi64(high, 32));
}

// Requires `to` aligned to 64 bytes.
uint64_t StreamBlock(char* to, const char* from, const Secrets& secrets) {
  alignas(64) uint64_t sums[8] = {XXH_PRIME32_3, XXH_PRIME64_1, XXH_PRIME64_2, XXH_PRIME64_3,
                                  XXH_PRIME64_4, XXH_PRIME32_2, XXH_PRIME64_5, XXH_PRIME32_1};
  const auto kSwap = static_cast<_MM_PERM_ENUM>(_MM_SHUFFLE(1, 0, 3, 2));
  __m512i all = _mm512_load_si512(sums);
  for (size_t round = 0; round < kRounds; ++round) {
    __m512i plain = _mm512_setzero_si512();
#pragma GCC unroll 16
    for (size_t stripe = 0; stripe < kStripesARound; ++stripe) {
      const size_t at = (round * kStripesARound + stripe) * kStripe;
      const __m512i data = Load(from + at);
      StreamOne(to + at, data);
      const bool last = stripe + 1 == kStripesARound && round + 1 == kRounds;
      all = _mm512_add_epi64(all, Product(data, last ? secrets.last : secrets.stripe[stripe]));
      plain = _mm512_add_epi64(plain, data);
    }
    all = _mm512_add_epi64(all, _mm512_shuffle_epi32(plain, kSwap));
    if (round + 1 < kRounds) all = Scramble(all, secrets.scramble);
  }
  _mm512_store_si512(sums, all);
  return XXH3_mergeAccs(sums, XXH3_kSecret + kMergeAt, kLoopBlockBytes * XXH_PRIME64_1);
}

}  // namespace

void StreamAvx512(char* to, const char* from, size_t bytes) { Stream(to, from, bytes); }

uint64_t CopyOutAvx512(char* to, const char* from, size_t bytes) {
  const Secrets secrets;
  return HashBlocks(bytes, [&](size_t at, size_t length) {
    if (length == kLoopBlockBytes) return StreamBlock(to + at, from + at, secrets);
    const uint64_t hash = XXH3_64bits(from + at, length);
    Stream(to + at, from + at, length);
    return hash;
  });
}

}  // namespace longhaul::checkpoint::internal
