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

// The windows of the secret, each in a cache line of its own: in the library's table nearly all
// straddle two, and to load those for every stripe takes the ports that the data needs.
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

inline __m256i LoadSecret(const char* secret) {
  return _mm256_load_si256(reinterpret_cast<const __m256i*>(secret));
}

inline __m256i Product(__m256i data, const char* secret) {
  const __m256i keyed = _mm256_xor_si256(data, LoadSecret(secret));
  return _mm256_mul_epu32(keyed, _mm256_srli_epi64(keyed, 32));
}

// The halves of all 16 bytes change places: what XXH3 adds of the data to each sum's neighbour.
inline __m256i Swapped(__m256i data) { return _mm256_shuffle_epi32(data, _MM_SHUFFLE(1, 0, 3, 2)); }

inline __m256i Scramble(__m256i sums, const char* secret) {
  const __m256i prime = _mm256_set1_epi64x(XXH_PRIME32_1);
  const __m256i mixed =
      _mm256_xor_si256(_mm256_xor_si256(sums, _mm256_srli_epi64(sums, 47)), LoadSecret(secret));
  const __m256i low = _mm256_mul_epu32(mixed, prime);
  const __m256i high = _mm256_mul_epu32(_mm256_srli_epi64(mixed, 32), prime);
  return _mm256_add_epi64(low, _mm256_slli_epi64(high, 32));
}

// Requires `to` aligned to 32 bytes.
uint64_t StreamBlock(char* to, const char* from, const Secrets& secrets) {
  alignas(32) uint64_t sums[8] = {XXH_PRIME32_3, XXH_PRIME64_1, XXH_PRIME64_2, XXH_PRIME64_3,
                                  XXH_PRIME64_4, XXH_PRIME32_2, XXH_PRIME64_5, XXH_PRIME32_1};
  __m256i low = _mm256_load_si256(reinterpret_cast<__m256i*>(sums));
  __m256i high = _mm256_load_si256(reinterpret_cast<__m256i*>(sums) + 1);
  for (size_t round = 0; round < kRounds; ++round) {
    // Of the data itself, whose halves change places once a round instead of once a stripe: the
    // same sum.
    __m256i plain_low = _mm256_setzero_si256();
    __m256i plain_high = _mm256_setzero_si256();
#pragma GCC unroll 16
    for (size_t stripe = 0; stripe < kStripesARound; ++stripe) {
      const size_t at = (round * kStripesARound + stripe) * kStripe;
      const __m256i* source = reinterpret_cast<const __m256i*>(from + at);
      __m256i* target = reinterpret_cast<__m256i*>(to + at);
      const __m256i a = _mm256_loadu_si256(source);
      const __m256i b = _mm256_loadu_si256(source + 1);
      _mm256_stream_si256(target, a);
      _mm256_stream_si256(target + 1, b);
      const bool last = stripe + 1 == kStripesARound && round + 1 == kRounds;
      const char* secret = last ? secrets.last : secrets.stripe[stripe];
      low = _mm256_add_epi64(low, Product(a, secret));
      high = _mm256_add_epi64(high, Product(b, secret + kStripe / 2));
      plain_low = _mm256_add_epi64(plain_low, a);
      plain_high = _mm256_add_epi64(plain_high, b);
    }
    low = _mm256_add_epi64(low, Swapped(plain_low));
    high = _mm256_add_epi64(high, Swapped(plain_high));
    if (round + 1 == kRounds) break;
    low = Scramble(low, secrets.scramble);
    high = Scramble(high, secrets.scramble + kStripe / 2);
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
  const Secrets secrets;
  return HashBlocks(bytes, [&](size_t at, size_t length) {
    if (length == kLoopBlockBytes) return StreamBlock(to + at, from + at, secrets);
    const uint64_t hash = XXH3_64bits(from + at, length);
    Stream(to + at, from + at, length);
    return hash;
  });
}

}  // namespace longhaul::checkpoint::internal
