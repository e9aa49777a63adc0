#include "io/memory/prefault.h"

#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/resource.h>

#include <memory>
#include <utility>
#include <vector>

namespace longhaul::io::prefault_test {
namespace {

using namespace longhaul::literals;

constexpr size_t kPages = 2100;  // two steps and a part of a third
constexpr size_t kBytes = kPages * 4096;

std::shared_ptr<const SharedMemory> Memory() {
  return *SharedMemory::Open(*CreateSharedMemory("test", Bytes(int64_t{kBytes}), false));
}

size_t PagesThere(std::span<std::byte> memory) {
  std::vector<unsigned char> there(kPages);
  EXPECT_EQ(mincore(memory.data(), memory.size(), there.data()), 0);
  size_t count = 0;
  for (const unsigned char page : there) count += page & 1u;
  return count;
}

[[maybe_unused]] int64_t FaultsOf(std::span<std::byte> memory) {
  rusage before{}, after{};
  getrusage(RUSAGE_THREAD, &before);
  for (size_t at = 0; at < memory.size(); at += 4096) memory[at] = std::byte{1};
  getrusage(RUSAGE_THREAD, &after);
  return after.ru_minflt - before.ru_minflt;
}

TEST(Prefault, WhatIsMadeAndMappedCostsItsUserNoFault) {
  const auto memory = Memory();
  const SharedMapping user = *SharedMapping::Map(memory->fd());
  EXPECT_EQ(PagesThere(user.bytes()), 0u);
  const PageMaker maker(memory);
  const PageMapper mapper(user.bytes());
  mapper.Wait(kBytes);
  EXPECT_EQ(PagesThere(user.bytes()), kPages);
  EXPECT_EQ(user.bytes()[kBytes - 1], std::byte{0});
#if !defined(LONGHAUL_THREAD_SANITIZER) && !defined(__SANITIZE_ADDRESS__)
  // Sanitizers take faults of their own for the shadow of each page.
  EXPECT_LT(FaultsOf(user.bytes()), int64_t{kPages / 100});
#endif
}

TEST(Prefault, NothingWrittenMeanwhileIsLost) {
  const auto memory = Memory();
  const SharedMapping user = *SharedMapping::Map(memory->fd());
  const PageMaker maker(memory);
  const PageMapper mapper(user.bytes());
  for (size_t at = 0; at < kBytes; at += 512) user.bytes()[at] = std::byte{7};
  mapper.Wait(~size_t{0});
  for (size_t at = 0; at < kBytes; at += 512) ASSERT_EQ(memory->bytes()[at], std::byte{7}) << at;
}

TEST(Prefault, AUserWhoseMakerIsGoneMakesThePagesItself) {
  auto memory = Memory();
  const SharedMapping user = *SharedMapping::Map(memory->fd());
  const PageMapper mapper(user.bytes(), std::chrono::milliseconds(10));
  mapper.Wait(4096);
  EXPECT_GE(PagesThere(user.bytes()), 1u);
}

TEST(Prefault, EndsAtOnceWhenItIsNotWantedAnyMore) {
  auto memory = Memory();
  const SharedMapping user = *SharedMapping::Map(memory->fd());
  { const PageMapper mapper(user.bytes()); }
  EXPECT_LT(PagesThere(user.bytes()), kPages);
}

}  // namespace
}  // namespace longhaul::io::prefault_test
