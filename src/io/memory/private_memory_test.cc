#include "io/memory/private_memory.h"

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

// Worked by hand, in huge pages: [0.5, 1.5) and [1.5, 3) meet, so pages 1 and 2 are whole;
// [3.5, 4.4) holds none; [6, 7) is one.
TEST(WholeHugePages, AreThoseWithinStretchesThatMeet) {
  const auto stretch = [](double from, double to) {
    const auto at = [](double pages) {
      return reinterpret_cast<const std::byte*>(
          static_cast<uintptr_t>(pages * static_cast<double>(kHugePageBytes)));
    };
    return std::span<const std::byte>(at(from), at(to));
  };
  const std::span<const std::byte> stretches[] = {
      stretch(6, 7), stretch(1.5, 3), stretch(0.5, 1.5), stretch(3.5, 4.4), {}};
  EXPECT_EQ(WholeHugePages(stretches),
            (std::vector<uintptr_t>{kHugePageBytes, 2 * kHugePageBytes, 6 * kHugePageBytes}));
}

TEST(MakeHuge, KeepsWhatIsThere) {
  void* data =
      mmap(nullptr, 2 * kHugePageBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  ASSERT_NE(data, MAP_FAILED);
  std::span<std::byte> memory(static_cast<std::byte*>(data), 2 * kHugePageBytes);
  for (size_t i = 0; i < memory.size(); ++i) memory[i] = std::byte(static_cast<uint8_t>(i * 7));
  const std::span<const std::byte> stretches[] = {memory};
  const std::vector<uintptr_t> pages = WholeHugePages(stretches);
  ASSERT_GE(pages.size(), 1u);
  const bool made = MakeHuge(pages[0]);
  size_t wrong = 0;
  for (size_t i = 0; i < memory.size(); ++i) {
    wrong += memory[i] != std::byte(static_cast<uint8_t>(i * 7));
  }
  EXPECT_EQ(wrong, 0u) << (made ? "made huge" : "refused");
  munmap(data, memory.size());
}

}  // namespace
}  // namespace longhaul::io
