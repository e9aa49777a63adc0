#include "io/private_memory.h"

#include <gtest/gtest.h>
#include <sys/mman.h>

#include <string>
#include <vector>

namespace longhaul::io {
namespace {

std::span<const std::byte> At(uintptr_t begin, size_t bytes) {
  return {reinterpret_cast<const std::byte*>(begin), bytes};
}

constexpr char kMaps[] =
    "1000-3000 rw-p 00000000 00:00 0\n"
    "3000-5000 rw-p 00000000 00:00 0  [heap]\n"
    "5000-6000 rw-s 00000000 00:01 7  /memfd:x (deleted)\n"
    "7000-8000 rw-p 00000000 00:00 0\n";

TEST(PrivateMemory, IsOursAloneAcrossNeighbours) {
  const std::span<const std::byte> kGood[] = {At(0x1000, 0x4000), At(0x2fff, 2), At(0x7fff, 1),
                                              At(0x9000, 0)};
  EXPECT_TRUE(CheckPrivate(kMaps, kGood).ok());
}

TEST(PrivateMemory, RefusesSharedAbsentAndHalfSuch) {
  for (const auto bad :
       {At(0x5000, 1), At(0x4fff, 2), At(0x6000, 1), At(0x7fff, 2), At(0xfff, 2), At(0x9000, 8)}) {
    const std::span<const std::byte> stretches[] = {At(0x1000, 8), bad};
    const Status status = CheckPrivate(kMaps, stretches);
    EXPECT_EQ(status.code(), Code::kFailedPrecondition) << bad.data();
    EXPECT_NE(status.message().find("stretch 1"), std::string::npos) << status;
  }
}

TEST(PrivateMemory, OfThisProcess) {
  const std::vector<std::byte> ours(1 << 20);
  void* shared = mmap(nullptr, 4096, PROT_READ, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  ASSERT_NE(shared, MAP_FAILED);
  const std::span<const std::byte> good[] = {ours};
  EXPECT_TRUE(CheckPrivate(good).ok());
  const std::span<const std::byte> bad[] = {At(reinterpret_cast<uintptr_t>(shared), 4096)};
  EXPECT_EQ(CheckPrivate(bad).code(), Code::kFailedPrecondition);
  munmap(shared, 4096);
}

}  // namespace
}  // namespace longhaul::io
