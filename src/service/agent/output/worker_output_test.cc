#include "service/agent/output/worker_output.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

namespace longhaul::service {
namespace {

class WorkerOutputTest : public ::testing::Test {
 protected:
  WorkerOutputTest() {
    std::string folder = ::testing::TempDir() + "worker_output_XXXXXX";
    folder_ = mkdtemp(folder.data());
  }
  ~WorkerOutputTest() override { std::filesystem::remove_all(folder_); }

  static void Write(const std::string& path, const std::string& text) {
    std::ofstream(path, std::ios::app) << text;
  }

  std::string folder_;
};

TEST_F(WorkerOutputTest, LiesInAFolderAnAttempt) {
  const auto output = OpenWorkerOutput(folder_, 3, 1);
  ASSERT_TRUE(output.ok()) << output.status();
  EXPECT_EQ(output->log_path, folder_ + "/logs/attempt-3/rank-1.log");
  EXPECT_TRUE(std::filesystem::exists(output->log_path));
}

// A job may put anything in the way of what the agent opens next: it must neither block nor write
// elsewhere.
TEST_F(WorkerOutputTest, RefusesALinkOrAPipeInThePlaceOfALog) {
  ASSERT_TRUE(OpenWorkerOutput(folder_, 1, 0).ok());
  const std::string logs = folder_ + "/logs/attempt-1/";
  Write(folder_ + "/other", "of somebody else");
  ASSERT_EQ(symlink((folder_ + "/other").c_str(), (logs + "rank-1.log").c_str()), 0);
  ASSERT_EQ(mkfifo((logs + "rank-2.log").c_str(), 0600), 0);
  std::filesystem::create_directory(logs + "rank-3.log");
  for (const uint32_t rank : {1u, 2u}) {
    const Status status = OpenWorkerOutput(folder_, 1, rank).status();
    EXPECT_EQ(status.code(), Code::kFailedPrecondition) << rank;
    EXPECT_NE(status.message().find("is not a regular file"), std::string::npos) << status;
  }
  EXPECT_FALSE(OpenWorkerOutput(folder_, 1, 3).ok());
}

TEST_F(WorkerOutputTest, ReadsNoErrorFileThatIsALinkOrAPipe) {
  const auto output = OpenWorkerOutput(folder_, 1, 0);
  ASSERT_TRUE(output.ok());
  Write(folder_ + "/other", R"({"message":"a secret"})");
  ASSERT_EQ(symlink((folder_ + "/other").c_str(), output->error_path.c_str()), 0);
  EXPECT_EQ(ReadLastWords(*output).message, "");
  unlink(output->error_path.c_str());
  ASSERT_EQ(mkfifo(output->error_path.c_str(), 0600), 0);
  EXPECT_EQ(ReadLastWords(*output).message, "");
}

TEST_F(WorkerOutputTest, ItsLogBlocksAWriterAsUsual) {
  const auto output = OpenWorkerOutput(folder_, 1, 0);
  ASSERT_TRUE(output.ok());
  EXPECT_EQ(fcntl(output->log.get(), F_GETFL) & O_NONBLOCK, 0);
}

TEST_F(WorkerOutputTest, TheErrorFileHasTheFirstWord) {
  const auto output = OpenWorkerOutput(folder_, 1, 0);
  ASSERT_TRUE(output.ok());
  Write(output->log_path, "some noise\n");
  Write(output->error_path,
        R"({"message":{"message":"ValueError: bad","extraInfo":{"timestamp":"1700000000"}}})");
  const LastWords words = ReadLastWords(*output);
  EXPECT_EQ(words.message, "ValueError: bad");
  EXPECT_EQ(words.error_at_ns, 1'700'000'000'000'000'000);
  EXPECT_EQ(ReadErrorFile(*output)->message, "ValueError: bad");
}

TEST_F(WorkerOutputTest, ALogIsNoErrorFile) {
  const auto output = OpenWorkerOutput(folder_, 1, 0);
  ASSERT_TRUE(output.ok());
  Write(output->log_path, "some noise\n");
  EXPECT_FALSE(ReadErrorFile(*output).has_value());
}

TEST_F(WorkerOutputTest, AnErrorFileOfAnEarlierLifeIsGone) {
  auto output = OpenWorkerOutput(folder_, 1, 0);
  ASSERT_TRUE(output.ok());
  Write(output->error_path, R"({"message":"old"})");
  output = OpenWorkerOutput(folder_, 1, 0);
  ASSERT_TRUE(output.ok());
  EXPECT_EQ(ReadLastWords(*output).message, "");
}

TEST_F(WorkerOutputTest, OnlyTheNewPartOfALogSpeaks) {
  auto output = OpenWorkerOutput(folder_, 1, 0);
  ASSERT_TRUE(output.ok());
  Write(output->log_path, "of an earlier life\n");
  output = OpenWorkerOutput(folder_, 1, 0);
  ASSERT_TRUE(output.ok());
  Write(output->log_path, "Segmentation fault\n");
  EXPECT_EQ(ReadLastWords(*output).message, "Segmentation fault");
}

TEST_F(WorkerOutputTest, LastLinesAreAtMostTwentyAndFourKibibytes) {
  const std::string path = folder_ + "/log";
  for (int i = 1; i <= 100; ++i) Write(path, "line " + std::to_string(i) + "\n");
  const std::string lines = LastLines(path, 0);
  EXPECT_EQ(lines.substr(0, lines.find('\n')), "line 81");
  EXPECT_EQ(lines.substr(lines.rfind('\n') + 1), "line 100");
  Write(path, std::string(10'000, 'x'));
  EXPECT_EQ(LastLines(path, 0), std::string(4096, 'x'));
  EXPECT_EQ(LastLines(folder_ + "/absent", 0), "");
}

TEST_F(WorkerOutputTest, LastLinesAreValidTextWhateverIsInTheFile) {
  const std::string path = folder_ + "/log";
  Write(path, "caf\xC3\xA9 \xFF!\n");
  EXPECT_EQ(LastLines(path, 0), "caf\u00e9 \uFFFD!");
}

}  // namespace
}  // namespace longhaul::service
