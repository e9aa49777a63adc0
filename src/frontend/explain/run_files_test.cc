#include "frontend/explain/run_files.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>

#include "base/temporary_folder.h"
#include "base/time.h"
#include "proto/json.h"
#include "service/controller/log/event_log.h"
#include "story/story_text.h"

namespace longhaul::frontend {
namespace {

using ::testing::HasSubstr;

proto::Notification FaultOf(const std::string& job, uint32_t number) {
  proto::Notification notification;
  notification.set_at_ns(1'700'000'000'000'000'000 + number);
  notification.set_job_id(job);
  notification.mutable_fault()->set_number(number);
  notification.mutable_fault()->set_what("worker 0 exited with code 1");
  notification.mutable_fault()->set_class_name("error");
  return notification;
}

class RunFiles : public testing::Test {
 protected:
  std::string path() const { return folder_.path(); }

  void Write(const std::string& name, const std::string& text) const {
    std::filesystem::create_directories(std::filesystem::path(path() + "/" + name).parent_path());
    std::ofstream(path() + "/" + name) << text;
  }

  // An event log with a fault of each job.
  void WriteLog(const std::string& name, const std::vector<std::string>& jobs) const {
    std::filesystem::create_directories(std::filesystem::path(path() + "/" + name).parent_path());
    const auto log = service::EventLog::Open(path() + "/" + name);
    ASSERT_TRUE(log.ok()) << log.status();
    for (const std::string& job : jobs) {
      service::LogEntry entry;
      entry.now = InstantFromNanoseconds(5);
      entry.event.mutable_tick();
      entry.notifications.push_back(FaultOf(job, 1));
      ASSERT_TRUE((*log)->Append({&entry, 1}).ok());
    }
  }

  const TemporaryFolder folder_{testing::TempDir()};
};

TEST_F(RunFiles, APathThatIsNoRunIsAnErrorWithTheRemedy) {
  const auto missing = ReadRun(path() + "/nothing", "");
  EXPECT_EQ(missing.status().code(), Code::kNotFound);
  EXPECT_THAT(missing.status().message(), HasSubstr("name one, such as runs/NAME"));
  const auto empty = ReadRun(path(), "");
  EXPECT_EQ(empty.status().code(), Code::kNotFound);
  EXPECT_THAT(empty.status().message(), HasSubstr("neither cluster/events.db nor events.jsonl"));
}

TEST_F(RunFiles, TheEventLogIsReadWhileItsControllerUsesItAndLeftAlone) {
  WriteLog("cluster/events.db", {"a-1"});
  const auto in_use = service::EventLog::Open(path() + "/cluster/events.db");
  ASSERT_TRUE(in_use.ok());
  const auto record = ReadRun(path(), "");
  ASSERT_TRUE(record.ok()) << record.status();
  EXPECT_EQ(record->job_id, "a-1");
  EXPECT_TRUE(record->has_events);
  EXPECT_EQ(story::MakeStory(*record).faults.size(), 1U);
}

TEST_F(RunFiles, ReadingALogAtRestMakesNoFiles) {
  WriteLog("cluster/events.db", {"a-1"});
  const auto files = [this] {
    std::vector<std::string> names;
    for (const auto& entry : std::filesystem::directory_iterator(path() + "/cluster")) {
      names.push_back(entry.path().filename());
    }
    std::sort(names.begin(), names.end());
    return names;
  };
  const auto before = files();
  ASSERT_TRUE(ReadRun(path(), "").ok());
  EXPECT_EQ(files(), before);
}

TEST_F(RunFiles, OfALogWithSeveralJobsOneIsNamed) {
  WriteLog("events.db", {"a-1", "b-2", "b-3"});
  const auto none = ReadRun(path(), "");
  EXPECT_EQ(none.status().code(), Code::kInvalidArgument);
  EXPECT_THAT(none.status().message(), HasSubstr("3 jobs: name one with --job"));
  EXPECT_EQ(ReadRun(path(), "b")->job_id, "b-3");
  EXPECT_EQ(ReadRun(path(), "a-1")->job_id, "a-1");
  const auto unknown = ReadRun(path(), "c");
  EXPECT_EQ(unknown.status().code(), Code::kNotFound);
  EXPECT_THAT(unknown.status().message(), HasSubstr("it has a-1, b-2, b-3"));
}

// Whatever is missing at the end or damaged in the middle: an answer, no crash.
TEST_F(RunFiles, ALogThatIsCutOrDamagedIsReadAsFarAsItGoes) {
  WriteLog("whole.db", {"a-1", "a-1", "a-1"});
  std::ifstream file(path() + "/whole.db", std::ios::binary);
  const std::string whole((std::istreambuf_iterator<char>(file)), {});
  int readable = 0;
  for (size_t size = 0; size <= whole.size(); size += 512) {
    Write("events.db", whole.substr(0, size));
    const auto record = ReadRun(path(), "");
    if (record.ok()) (void)story::StoryText(story::MakeStory(*record), {});
    readable += record.ok() ? 1 : 0;
    EXPECT_TRUE(record.ok() || !record.status().message().empty());
  }
  EXPECT_GE(readable, 1) << "the whole log at least";
  for (size_t at = 0; at < whole.size(); at += 211) {
    std::string damaged = whole;
    damaged[at] = static_cast<char>(damaged[at] ^ 0x5a);
    Write("events.db", damaged);
    const auto record = ReadRun(path(), "");
    if (record.ok()) (void)story::StoryText(story::MakeStory(*record), {});
  }
}

TEST_F(RunFiles, WithoutAnEventLogTheLinesAreRead) {
  std::string lines = "nonsense\n";
  lines += proto::ToJson(FaultOf("a-1", 1)).dump() + "\n";
  lines += proto::ToJson(FaultOf("a-2", 1)).dump() + "\n";
  lines += proto::ToJson(FaultOf("a-2", 2)).dump() + "\n{\"at_ns\":1";
  Write("events.jsonl", lines);
  const auto record = ReadRun(path(), "");
  ASSERT_TRUE(record.ok()) << record.status();
  EXPECT_EQ(record->job_id, "a-2") << "the newest";
  const story::Story story = story::MakeStory(*record);
  EXPECT_EQ(story.faults.size(), 2U);
  EXPECT_THAT(story::StoryText(story, {}), HasSubstr("1 line of events.jsonl could not be read."));
  EXPECT_THAT(story::StoryText(story, {}), HasSubstr("The last line of events.jsonl is cut off"));
  EXPECT_THAT(story::StoryText(story, {}), HasSubstr("There is no event log here"));
}

TEST_F(RunFiles, AKindOfLineOfANewerVersionIsNamedAsMissing) {
  std::string lines = proto::ToJson(FaultOf("a-1", 1)).dump() + "\n";
  lines += R"({"at_ns": 5, "job_id": "a-1", "reshaped": {"ranks": 3}})";
  Write("events.jsonl", lines + "\n");
  const auto record = ReadRun(path(), "");
  ASSERT_TRUE(record.ok()) << record.status();
  EXPECT_EQ(story::MakeStory(*record).faults.size(), 1U);
  EXPECT_THAT(record->notes, testing::ElementsAre(HasSubstr("1 entry of the log has a kind that")));
}

TEST_F(RunFiles, OnlyTheReportOfThisRunCounts) {
  WriteLog("cluster/events.db", {"a-1"});
  {
    const auto log = service::EventLog::Open(path() + "/cluster/events.db");
    service::LogEntry entry;
    entry.now = InstantFromNanoseconds(5);
    entry.event.mutable_tick();
    proto::Notification& end = entry.notifications.emplace_back();
    end.set_job_id("a-1");
    end.set_at_ns(1'767'225'610'000'000'000);  // 2026-01-01T00:00:10Z
    end.mutable_state()->set_state(proto::SUCCEEDED);
    ASSERT_TRUE((*log)->Append({&entry, 1}).ok());
  }
  const auto with_start = [this](const std::string& at) {
    Write("report.json",
          R"({"state": "failed", "goodput": 0.25, "mean_ranks": 2, "ledger": {"categories": )"
          R"({"lost work": {"seconds": 3}}}, "run": {"started_at": ")" +
              at + R"(", "process_seconds": 20}})");
    return ReadRun(path(), "");
  };
  const auto of_this = with_start("2026-01-01T00:00:00.000Z");
  ASSERT_TRUE(of_this.ok() && of_this->totals.has_value());
  EXPECT_EQ(of_this->totals->goodput, 0.25);
  EXPECT_EQ(of_this->totals->categories.at(0).seconds, 3);
  EXPECT_FALSE(with_start("2025-12-31T00:00:00.000Z")->totals.has_value());
  Write("report.json", "[1, 2");
  const auto damaged = ReadRun(path(), "");
  EXPECT_FALSE(damaged->totals.has_value());
  EXPECT_THAT(damaged->notes.at(0), HasSubstr("report.json is not the report of a run"));
}

TEST_F(RunFiles, TheLastLinesOfTheWorkerAreAddedToItsFault) {
  story::RunRecord record;
  record.run_directory = path();
  proto::Notification attempt;
  attempt.mutable_attempt()->set_attempt(4);
  record.notifications.push_back(attempt);
  record.notifications.push_back(FaultOf("", 1));
  Write("logs/attempt-4/rank-0.log", "first\nout of memory\n");
  ReadOutputs(story::MakeStory(record), record);
  const story::Story story = story::MakeStory(record);
  EXPECT_THAT(story.faults.at(0).output, ::testing::ElementsAre("first", "out of memory"));
  EXPECT_EQ(story.faults.at(0).output_file, "logs/attempt-4/rank-0.log");
}

}  // namespace
}  // namespace longhaul::frontend
