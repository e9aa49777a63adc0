#include "frontend/worker_logs.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>

namespace longhaul::frontend {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

class WorkerLogsTest : public ::testing::Test {
 protected:
  WorkerLogsTest() {
    std::string path = ::testing::TempDir() + "/worker-logs-XXXXXX";
    folder_ = mkdtemp(path.data());
  }
  ~WorkerLogsTest() override { std::filesystem::remove_all(folder_); }

  void Print(int attempt, int rank, const std::string& text) const {
    const std::string logs = folder_ + "/logs/attempt-" + std::to_string(attempt);
    std::filesystem::create_directories(logs);
    std::ofstream(logs + "/rank-" + std::to_string(rank) + ".log", std::ios::app) << text;
  }

  static std::vector<std::string> Texts(const std::vector<WorkerLine>& lines) {
    std::vector<std::string> texts;
    for (const WorkerLine& line : lines) {
      texts.push_back(std::to_string(line.attempt) + "." + std::to_string(line.rank) + " " +
                      line.text);
    }
    return texts;
  }

  std::string folder_;
};

TEST_F(WorkerLogsTest, GivesEachLineOnceWhenItIsWhole) {
  WorkerLogs logs(folder_);
  logs.Follow(1, 2);
  EXPECT_THAT(logs.Read(), IsEmpty());  // no log yet
  Print(1, 0, "one\ntwo\nthr");
  Print(1, 1, "other\n");
  EXPECT_THAT(Texts(logs.Read()), ElementsAre("1.0 one", "1.0 two", "1.1 other"));
  Print(1, 0, "ee\n");
  EXPECT_THAT(Texts(logs.Read()), ElementsAre("1.0 three"));
  EXPECT_THAT(logs.Read(), IsEmpty());
}

TEST_F(WorkerLogsTest, GivesUnfinishedLinesAtTheEnd) {
  WorkerLogs logs(folder_);
  logs.Follow(1, 1);
  Print(1, 0, "no line end");
  EXPECT_THAT(logs.Read(), IsEmpty());
  EXPECT_THAT(Texts(logs.ReadRest()), ElementsAre("1.0 no line end"));
  EXPECT_THAT(logs.ReadRest(), IsEmpty());
}

TEST_F(WorkerLogsTest, KeepsToTheLastTwoAttempts) {
  WorkerLogs logs(folder_);
  for (const int attempt : {1, 2, 3}) logs.Follow(static_cast<uint64_t>(attempt), 1);
  for (const int attempt : {1, 2, 3}) Print(attempt, 0, "line\n");
  EXPECT_THAT(Texts(logs.Read()), ElementsAre("2.0 line", "3.0 line"));
}

TEST_F(WorkerLogsTest, PassesOverWhatAnEarlierRunHasPrinted) {
  Print(1, 0, "earlier\n");
  WorkerLogs logs(folder_);
  logs.Follow(1, 1);
  Print(1, 0, "now\n");
  EXPECT_THAT(Texts(logs.Read()), ElementsAre("1.0 now"));
}

TEST_F(WorkerLogsTest, GivesWhatWasPrintedBeforeTheAttemptWasAnnounced) {
  WorkerLogs logs(folder_);
  Print(1, 0, "early\n");
  logs.Follow(1, 1);
  EXPECT_THAT(Texts(logs.Read()), ElementsAre("1.0 early"));
}

TEST_F(WorkerLogsTest, ShowsOnlyWhatAProgressBarDrewLast) {
  WorkerLogs logs(folder_);
  logs.Follow(1, 1);
  Print(1, 0, "10 %\r50 %\r100 %\r\n");
  EXPECT_THAT(Texts(logs.Read()), ElementsAre("1.0 100 %"));
}

TEST_F(WorkerLogsTest, CutsEndlessLines) {
  WorkerLogs logs(folder_);
  logs.Follow(1, 1);
  Print(1, 0, std::string(20'000, 'x') + "\nnext\n");
  const std::vector<WorkerLine> lines = logs.ReadRest();
  ASSERT_EQ(lines.size(), 4u);
  EXPECT_EQ(lines[0].text.size(), 8192u);
  EXPECT_EQ(lines[2].text.size(), 20'000u - 2 * 8192u);
  EXPECT_EQ(lines[3].text, "next");
}

TEST(LinePrefix, IsTheRankUnlessATemplateIsGiven) {
  EXPECT_EQ(LinePrefix("", "default", 5, 4), "[rank 5] ");
  EXPECT_EQ(LinePrefix("[${role_name}${local_rank}/${rank}]: ", "trainer", 5, 4), "[trainer1/5]: ");
  EXPECT_EQ(LinePrefix("$rank ${other} $", "default", 5, 4), "$rank ${other} $");
  EXPECT_EQ(LinePrefix("${hostname}", "default", 0, 1).find('$'), std::string::npos);
}

}  // namespace
}  // namespace longhaul::frontend
