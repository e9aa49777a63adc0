#include "checkpoint/copy.h"

#if defined(__x86_64__)
#include <emmintrin.h>
#endif

#include <atomic>

#include "base/check.h"
#include "checkpoint/internal/copy_avx2.h"
#include "checkpoint/internal/copy_avx512.h"
#include "checkpoint/internal/copy_loop.h"

namespace longhaul::checkpoint {
namespace {

static_assert(kBlockBytes == internal::kLoopBlockBytes);
static_assert(kChunkBytes == internal::kLoopBlockBytes * internal::kLoopMaxBlocks);

#if defined(__x86_64__)
bool HasAvx2() {
  static const bool has = __builtin_cpu_supports("avx2") != 0;
  return has;
}

// The registers of 64 bytes, where the system keeps them: half the instructions of AVX2.
bool HasAvx512() {
  static const bool has = __builtin_cpu_supports("avx512f") != 0 && HasAvx2();
  return has;
}
#endif

const char* Chars(std::span<const std::byte> bytes) {
  return reinterpret_cast<const char*>(bytes.data());
}

}  // namespace

// All builds compute the same hash, so a snapshot that one machine has written verifies on any
// other.
uint64_t HashChunk(std::span<const std::byte> chunk) {
  CHECK(chunk.size() <= kChunkBytes);
#if defined(__x86_64__)
  if (HasAvx2()) return internal::HashAvx2(Chars(chunk), chunk.size());
#endif
  return internal::LoopHash(Chars(chunk), chunk.size());
}

uint64_t CopyChunkOut(std::byte* to, std::span<const std::byte> from) {
  CHECK(from.size() <= kChunkBytes);
  char* target = reinterpret_cast<char*>(to);
#if defined(__x86_64__)
  if (HasAvx512()) return internal::CopyOutAvx512(target, Chars(from), from.size());
  if (HasAvx2()) return internal::CopyOutAvx2(target, Chars(from), from.size());
#endif
  return internal::LoopCopyIn(target, Chars(from), from.size());
}

uint64_t CopyChunkIn(std::byte* to, std::span<const std::byte> from) {
  CHECK(from.size() <= kChunkBytes);
  char* target = reinterpret_cast<char*>(to);
#if defined(__x86_64__)
  if (HasAvx2()) return internal::CopyInAvx2(target, Chars(from), from.size());
#endif
  return internal::LoopCopyIn(target, Chars(from), from.size());
}

void FenceStores() {
#if defined(__x86_64__)
  _mm_sfence();  // streaming stores are not ordered by anything less
#endif
  std::atomic_thread_fence(std::memory_order_seq_cst);
}

void StreamCopy(std::byte* to, std::span<const std::byte> from) {
#if defined(__x86_64__)
  if (HasAvx512()) {
    internal::StreamAvx512(reinterpret_cast<char*>(to), Chars(from), from.size());
    return;
  }
  if (HasAvx2()) {
    internal::StreamAvx2(reinterpret_cast<char*>(to), Chars(from), from.size());
    return;
  }
#endif
  memcpy(to, from.data(), from.size());
}

std::vector<CopyVariant> CopyVariants() {
  std::vector<CopyVariant> variants = {{"plain", internal::LoopCopyIn}};
#if defined(__x86_64__)
  if (HasAvx2()) variants.push_back({"AVX2", internal::CopyOutAvx2});
  if (HasAvx512()) variants.push_back({"AVX-512", internal::CopyOutAvx512});
#endif
  return variants;
}

}  // namespace longhaul::checkpoint
