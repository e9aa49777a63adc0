#include "io/files/direct_file.h"

#include <gtest/gtest.h>
#include <stdlib.h>
#include <sys/resource.h>

#include <algorithm>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "base/random.h"

namespace longhaul::io {
namespace {

class DirectFile : public testing::Test {
 protected:
  void SetUp() override {
    std::string folder = testing::TempDir() + "/direct_XXXXXX";
    ASSERT_NE(mkdtemp(folder.data()), nullptr);
    folder_ = folder;
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }
  std::string Path() const { return folder_ + "/file"; }

  std::string folder_;
};

std::vector<std::byte> RandomBytes(size_t count, uint64_t seed) {
  Random random(seed);
  std::vector<std::byte> bytes(count);
  for (std::byte& byte : bytes) byte = std::byte{static_cast<unsigned char>(random.Next())};
  return bytes;
}

constexpr DirectOptions kWays[] = {{4096, 1, true, true},
                                   {4096, 3, true, true},
                                   {16'384, 4, true, false},
                                   {8192, 2, false, true},
                                   {4096, 1, false, false}};

TEST_F(DirectFile, HoldsWhatWasAppendedInAnyCuts) {
  Random random(3);
  for (const DirectOptions& way : kWays) {
    for (const size_t bytes : {size_t{0}, size_t{1}, size_t{4095}, size_t{4096}, size_t{100'001}}) {
      const std::vector<std::byte> content = RandomBytes(bytes, bytes);
      auto file = CreateDirectFile(Path(), bytes, way);
      ASSERT_TRUE(file.ok()) << file.status();
      for (size_t at = 0; at < bytes;) {
        const size_t part = std::min<size_t>(bytes - at, 1 + random.Below(9'000));
        ASSERT_TRUE((*file)->Append(std::span(content).subspan(at, part)).ok());
        at += part;
      }
      ASSERT_TRUE((*file)->Sync().ok());
      ASSERT_TRUE((*file)->Close().ok());
      const auto read = PosixFileSystem().ReadAll(Path(), 1 << 20);
      ASSERT_TRUE(read.ok()) << read.status();
      EXPECT_EQ(*read, content) << bytes << " bytes in blocks of " << way.block_bytes;
    }
  }
}

// What lies in memory as in the file is written from where it lies, the rest by way of a block: the
// file is the same.
TEST_F(DirectFile, HoldsWhatWasAppendedStableWhereverItLies) {
  Random random(4);
  for (const DirectOptions& way : kWays) {
    for (size_t turn = 0; turn < 12; ++turn) {
      // A page's start, then memory of which more or less lies as it will in the file.
      const std::vector<std::byte> content = RandomBytes(150'000 + random.Below(5'000), turn);
      const size_t lies_at = turn % 3 == 0 ? 0 : 64 * random.Below(64);
      const std::unique_ptr<std::byte, void (*)(void*)> room(
          static_cast<std::byte*>(std::aligned_alloc(4096, 40 * 4096 * 2)), &std::free);
      std::byte* const memory = room.get() + lies_at;
      std::copy(content.begin(), content.end(), memory);
      auto file = CreateDirectFile(Path(), content.size(), way);
      ASSERT_TRUE(file.ok()) << file.status();
      const size_t first = turn % 2 == 0 ? lies_at : random.Below(9'000);
      ASSERT_TRUE((*file)->Append({memory, first}).ok());
      for (size_t at = first; at < content.size();) {
        const size_t part = std::min<size_t>(content.size() - at, 1 + random.Below(60'000));
        ASSERT_TRUE((*file)->AppendStable({memory + at, part}).ok());
        at += part;
      }
      ASSERT_TRUE((*file)->Sync().ok());
      ASSERT_TRUE((*file)->Close().ok());
      const auto read = PosixFileSystem().ReadAll(Path(), 1 << 20);
      ASSERT_TRUE(read.ok()) << read.status();
      EXPECT_EQ(*read, content) << "turn " << turn << ", blocks of " << way.block_bytes;
    }
  }
}

TEST_F(DirectFile, ASmallerEndThanWasAnnouncedIsCutOff) {
  auto file = CreateDirectFile(Path(), 100'000);
  ASSERT_TRUE(file.ok()) << file.status();
  ASSERT_TRUE((*file)->Append(RandomBytes(10, 1)).ok());
  ASSERT_TRUE((*file)->Sync().ok());
  EXPECT_EQ(*PosixFileSystem().Size(Path()), 10u);
}

// A limit on the size of files stands for every error of a write that comes late.
TEST_F(DirectFile, AFailedWriteIsReportedFromThenOn) {
  rlimit before{};
  ASSERT_EQ(getrlimit(RLIMIT_FSIZE, &before), 0);
  const auto old = std::signal(SIGXFSZ, SIG_IGN);
  for (const DirectOptions& way : kWays) {
    auto file = CreateDirectFile(Path(), 0, way);
    ASSERT_TRUE(file.ok());
    const rlimit small{20'480, before.rlim_max};
    ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &small), 0);
    Status status;
    for (int i = 0; i < 100 && status.ok(); ++i) status = (*file)->Append(RandomBytes(4096, 1));
    if (status.ok()) status = (*file)->Sync();
    EXPECT_FALSE(status.ok()) << "blocks of " << way.block_bytes;
    EXPECT_NE(status.message().find(Path()), std::string::npos) << status;
    EXPECT_FALSE((*file)->Append(RandomBytes(1, 1)).ok()) << "a failure is not forgotten";
    EXPECT_FALSE((*file)->Close().ok());
    file->reset();
    ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &before), 0);
  }
  std::signal(SIGXFSZ, old);
}

TEST_F(DirectFile, NoSpaceIsReportedAtOnceAndLeavesNothing) {
  rlimit before{};
  ASSERT_EQ(getrlimit(RLIMIT_FSIZE, &before), 0);
  const auto old = std::signal(SIGXFSZ, SIG_IGN);
  const rlimit small{20'480, before.rlim_max};
  ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &small), 0);
  const auto file = DirectFileSystem().CreateBulk(Path(), 1 << 20);
  ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &before), 0);
  std::signal(SIGXFSZ, old);
  EXPECT_FALSE(file.ok());
  EXPECT_EQ(PosixFileSystem().Size(Path()).status().code(), Code::kNotFound);
}

}  // namespace
}  // namespace longhaul::io
