#include "io/files/direct_reader.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <stdlib.h>
#include <sys/mman.h>

#include <algorithm>
#include <filesystem>
#include <string>
#include <vector>

#include "base/random.h"
#include "io/fd.h"
#include "io/files/direct_file.h"

namespace longhaul::io {
namespace {

class DirectReader : public testing::TestWithParam<std::string> {
 protected:
  void SetUp() override {
    std::string folder = GetParam() + "/reader_XXXXXX";
    ASSERT_NE(mkdtemp(folder.data()), nullptr);
    folder_ = folder;
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }
  std::string Path() const { return folder_ + "/file"; }

  std::vector<std::byte> Write(size_t bytes) {
    Random random(bytes + 1);
    std::vector<std::byte> content(bytes);
    for (std::byte& byte : content) byte = std::byte{static_cast<unsigned char>(random.Next())};
    auto file = DirectFileSystem().CreateBulk(Path(), bytes);
    EXPECT_TRUE(file.ok()) << file.status();
    EXPECT_TRUE((*file)->Append(content).ok());
    EXPECT_TRUE((*file)->Sync().ok());
    EXPECT_TRUE((*file)->Close().ok());
    return content;
  }

  std::string folder_;
};

TEST_P(DirectReader, GivesTheBytesOfAnyPartInAnyOrder) {
  Random random(7);
  for (const size_t bytes : {size_t{1}, size_t{4095}, size_t{4096}, size_t{8192}, size_t{50'001}}) {
    const std::vector<std::byte> content = Write(bytes);
    for (const size_t window : {size_t{4096}, size_t{12'288}, kReadWindow}) {
      const auto file = OpenDirectReader(Path(), window);
      ASSERT_TRUE(file.ok()) << file.status();
      EXPECT_EQ((*file)->bytes(), bytes);
      for (int i = 0; i < 50; ++i) {
        const size_t begin = random.Below(bytes + 1);
        const size_t count = random.Below(bytes - begin + 1);
        std::vector<std::byte> got(count);
        ASSERT_TRUE((*file)->Read(begin, got).ok());
        ASSERT_TRUE(std::equal(got.begin(), got.end(), content.begin() + begin));
      }
    }
  }
}

TEST_P(DirectReader, SaysWhereAFileEnds) {
  (void)Write(10'000);
  const auto file = OpenDirectReader(Path(), 4096);
  ASSERT_TRUE(file.ok()) << file.status();
  std::vector<std::byte> got(2'000);
  const Status beyond = (*file)->Read(9'000, got);
  EXPECT_EQ(beyond.code(), Code::kDataLoss);
  EXPECT_NE(beyond.message().find("ends at byte 10000"), std::string::npos) << beyond;
  EXPECT_EQ((*file)->Read(50'000, got).code(), Code::kDataLoss);
  // What was there stays readable, and a file cut after it was opened is noticed.
  EXPECT_TRUE((*file)->Read(0, got).ok());
  std::filesystem::resize_file(Path(), 100);
  EXPECT_EQ((*file)->Read(8'000, got).code(), Code::kDataLoss);
}

TEST_P(DirectReader, RefusesWhatIsNoFile) {
  EXPECT_EQ(OpenDirectReader(Path()).status().code(), Code::kNotFound);
  EXPECT_EQ(OpenDirectReader(folder_).status().code(), Code::kInvalidArgument);
}

INSTANTIATE_TEST_SUITE_P(OnDiskAndInMemory, DirectReader,
                         testing::Values(testing::TempDir(), std::string("/dev/shm")),
                         [](const auto& each) { return each.index == 0 ? "Disk" : "Memory"; });

size_t PagesInCache(const std::string& path, size_t bytes) {
  const Fd fd(open(path.c_str(), O_RDONLY | O_CLOEXEC));
  void* mapped = mmap(nullptr, bytes, PROT_READ, MAP_SHARED, fd.get(), 0);
  EXPECT_NE(mapped, MAP_FAILED);
  std::vector<unsigned char> there((bytes + 4095) / 4096);
  EXPECT_EQ(mincore(mapped, bytes, there.data()), 0);
  munmap(mapped, bytes);
  return static_cast<size_t>(std::count_if(there.begin(), there.end(),
                                           [](unsigned char page) { return (page & 1) != 0; }));
}

using DirectReaderOnDisk = DirectReader;

TEST_P(DirectReaderOnDisk, LeavesThePageCacheAsItWas) {
  constexpr size_t kBytes = 1 << 20;
  (void)Write(kBytes);
  const Fd probe(open(Path().c_str(), O_RDONLY | O_CLOEXEC | O_DIRECT));
  if (!probe.valid()) GTEST_SKIP() << "the file system of " << folder_ << " refuses O_DIRECT";
  std::vector<std::byte> got(kBytes);
  ASSERT_TRUE((*OpenDirectReader(Path()))->Read(0, got).ok());
  EXPECT_EQ(PagesInCache(Path(), kBytes), 0u);
  ASSERT_TRUE((*PosixFileSystem().Open(Path()))->Read(0, got).ok());
  EXPECT_EQ(PagesInCache(Path(), kBytes), kBytes / 4096);  // so it is observable
}

INSTANTIATE_TEST_SUITE_P(OnDisk, DirectReaderOnDisk, testing::Values(testing::TempDir()));

}  // namespace
}  // namespace longhaul::io
