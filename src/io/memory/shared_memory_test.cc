#include "io/memory/shared_memory.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <utility>

namespace longhaul::io {
namespace {

using namespace longhaul::literals;

TEST(SharedMemory, IsZeroedAndSharedBetweenMappings) {
  for (const bool populate : {false, true}) {
    const Result<Fd> fd = CreateSharedMemory("test", 64_KiB, populate);
    ASSERT_TRUE(fd.ok()) << fd.status();
    EXPECT_EQ(*SharedMemorySize(*fd), 64_KiB);
    const Result<SharedMapping> one = SharedMapping::Map(*fd);
    const Result<SharedMapping> two = SharedMapping::Map(*fd);
    ASSERT_TRUE(one.ok() && two.ok());
    ASSERT_EQ(one->bytes().size(), 65'536u);
    EXPECT_EQ(two->bytes()[65'535], std::byte{0});
    one->bytes()[65'535] = std::byte{7};
    EXPECT_EQ(two->bytes()[65'535], std::byte{7});
  }
}

TEST(SharedMemory, CannotBeResizedUnderItsUser) {
  const Result<Fd> fd = CreateSharedMemory("test", 64_KiB, false);
  ASSERT_TRUE(fd.ok());
  EXPECT_NE(ftruncate(fd->get(), 4096), 0);
  EXPECT_NE(ftruncate(fd->get(), 1 << 20), 0);
}

TEST(SharedMemory, OfNoSizeIsRefused) {
  EXPECT_EQ(CreateSharedMemory("test", 0_B, true).status().code(), Code::kInvalidArgument);
  EXPECT_EQ(CreateSharedMemory("test", Bytes(-1), true).status().code(), Code::kInvalidArgument);
}

TEST(SharedMemory, ADescriptorThatCouldShrinkIsRefused) {
  const Fd unsealed(memfd_create("test", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  ASSERT_EQ(ftruncate(unsealed.get(), 4096), 0);
  EXPECT_EQ(SharedMapping::Map(unsealed).status().code(), Code::kInvalidArgument);
  const Fd null(open("/dev/null", O_RDWR | O_CLOEXEC));
  EXPECT_EQ(SharedMapping::Map(null).status().code(), Code::kInvalidArgument);
  EXPECT_EQ(SharedMapping::Map(Fd()).status().code(), Code::kInvalidArgument);
}

TEST(SharedMapping, MovesWithItsMemory) {
  const Result<Fd> fd = CreateSharedMemory("test", 4_KiB, false);
  Result<SharedMapping> mapped = SharedMapping::Map(*fd);
  ASSERT_TRUE(mapped.ok());
  SharedMapping one = std::move(mapped).value();
  one.bytes()[0] = std::byte{9};
  SharedMapping two = std::move(one);
  EXPECT_EQ(two.bytes()[0], std::byte{9});
  SharedMapping three;
  EXPECT_TRUE(three.bytes().empty());
  three = std::move(two);
  EXPECT_EQ(three.bytes()[0], std::byte{9});
}

}  // namespace
}  // namespace longhaul::io
