#include "service/agent/isolation/log_limit.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>
#include <string>

#include "io/files/file.h"

namespace longhaul::service::log_limit_test {
namespace {

constexpr uint64_t kKiB = 1024;

TEST(RangeToFree, LeavesTheFirstQuarterAndTheLastHalfOfTheLimit) {
  const struct {
    uint64_t bytes;
    FreedRange freed;
    std::optional<FreedRange> want;
  } kRows[] = {
      {0, {}, std::nullopt},
      {256 * kKiB, {}, std::nullopt},  // exactly the limit
      {256 * kKiB + 1, {}, FreedRange{64 * kKiB, 128 * kKiB}},
      {1024 * kKiB + 5, {}, FreedRange{64 * kKiB, 896 * kKiB}},
      // 128 KiB of it were freed: 256 KiB are taken.
      {384 * kKiB, {64 * kKiB, 192 * kKiB}, std::nullopt},
      {384 * kKiB + 4096, {64 * kKiB, 192 * kKiB}, FreedRange{64 * kKiB, 260 * kKiB}},
  };
  for (const auto& row : kRows) {
    EXPECT_EQ(RangeToFree(row.bytes, row.freed, 256 * kKiB), row.want) << row.bytes;
  }
}

class LogLimitTest : public ::testing::Test {
 protected:
  LogLimitTest() {
    std::string path = "/tmp/log_limit_XXXXXX";
    close(mkstemp(path.data()));
    path_ = path;
    writer_ = io::Fd(open(path.c_str(), O_WRONLY | O_APPEND | O_CLOEXEC));
  }
  ~LogLimitTest() override { unlink(path_.c_str()); }

  io::Fd Log() const { return io::Fd(open(path_.c_str(), O_WRONLY | O_APPEND | O_CLOEXEC)); }
  void Write(uint64_t bytes, char c) const {
    const std::string text(bytes, c);
    ASSERT_EQ(write(writer_.get(), text.data(), text.size()), static_cast<ssize_t>(bytes));
  }
  uint64_t OnDisk() const {
    struct stat facts {};
    EXPECT_EQ(stat(path_.c_str(), &facts), 0);
    return static_cast<uint64_t>(facts.st_blocks) * 512;
  }
  std::string Text() const { return *io::ReadText(path_, 64 << 20); }

  std::string path_;
  io::Fd writer_;
};

TEST_F(LogLimitTest, LeavesALogBelowItAlone) {
  LogLimit limit(Log(), 256 * kKiB);
  Write(256 * kKiB, 'a');
  EXPECT_FALSE(*limit.Enforce());
  EXPECT_EQ(Text(), std::string(256 * kKiB, 'a'));
}

TEST_F(LogLimitTest, KeepsTheSpaceOfALogThatGrowsWithoutEndBounded) {
  LogLimit limit(Log(), 256 * kKiB);
  int notes = 0;
  for (int i = 0; i < 64; ++i) {
    Write(100 * kKiB, static_cast<char>('0' + i));
    const Result<bool> noted = limit.Enforce();
    ASSERT_TRUE(noted.ok()) << noted.status();
    notes += *noted ? 1 : 0;
    EXPECT_LE(OnDisk(), (256 + 8) * kKiB);
  }
  EXPECT_EQ(notes, 1) << "it is stated once";
  const std::string text = Text();
  EXPECT_GT(text.size(), 6400 * kKiB) << "offsets of readers stay valid";
  EXPECT_EQ(text.front(), '0');
  EXPECT_EQ(text[3200 * kKiB], '\0');
  EXPECT_EQ(text.substr(text.size() - 100 * kKiB), std::string(100 * kKiB, '0' + 63));
}

TEST_F(LogLimitTest, IsStatedInTheLog) {
  LogLimit limit(Log(), 256 * kKiB);
  Write(300 * kKiB, 'a');
  ASSERT_TRUE(*limit.Enforce());
  EXPECT_NE(Text().find("limits.log_size"), std::string::npos);
}

TEST_F(LogLimitTest, BeginsAgainWhereTheJobHasCutItsLog) {
  LogLimit limit(Log(), 256 * kKiB);
  Write(900 * kKiB, 'a');
  ASSERT_TRUE(*limit.Enforce());
  ASSERT_EQ(ftruncate(writer_.get(), 0), 0);
  Write(200 * kKiB, 'b');
  ASSERT_TRUE(limit.Enforce().ok());
  EXPECT_EQ(Text(), std::string(200 * kKiB, 'b')) << "it is below the limit";
}

TEST_F(LogLimitTest, ReportsAFileThatCannotBeLimitedOnce) {
  int ends[2];
  ASSERT_EQ(pipe2(ends, O_CLOEXEC), 0);
  const io::Fd reader(ends[0]);
  LogLimit none{io::Fd(ends[1]), 256 * kKiB};
  EXPECT_FALSE(*none.Enforce()) << "a pipe has no length";
  // Read-only: the file system refuses to free a part of it.
  Write(300 * kKiB, 'a');
  LogLimit limit{io::Fd(open(path_.c_str(), O_RDONLY | O_CLOEXEC)), 256 * kKiB};
  EXPECT_FALSE(limit.Enforce().ok());
  EXPECT_FALSE(*limit.Enforce());
}

TEST_F(LogLimitTest, OfZeroIsNone) {
  LogLimit limit(Log(), 0);
  Write(300 * kKiB, 'a');
  EXPECT_FALSE(*limit.Enforce());
  EXPECT_EQ(OnDisk(), 300 * kKiB);
}

}  // namespace
}  // namespace longhaul::service::log_limit_test
