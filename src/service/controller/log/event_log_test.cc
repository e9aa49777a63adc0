#include "service/controller/log/event_log.h"

#include <gtest/gtest.h>
#include <sqlite3.h>
#include <sys/stat.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>

namespace longhaul::service {
namespace {

class EventLogTest : public testing::Test {
 protected:
  EventLogTest() {
    std::string pattern = testing::TempDir() + "/event_log_XXXXXX";
    directory_ = ::mkdtemp(pattern.data());
  }
  ~EventLogTest() override { std::filesystem::remove_all(directory_); }

  std::string path() const { return directory_ + "/events.db"; }

  static LogEntry Entry(int64_t at, const std::string& job, int notifications) {
    LogEntry entry;
    entry.now = InstantFromNanoseconds(at);
    entry.event.mutable_job_stop_requested()->set_job_id(job);
    for (int i = 0; i < notifications; ++i) {
      proto::Notification& notification = entry.notifications.emplace_back();
      notification.set_job_id(job);
      notification.mutable_message()->set_text("notification " + std::to_string(i));
    }
    return entry;
  }

  void Sql(const std::string& sql) const {
    sqlite3* database = nullptr;
    ASSERT_EQ(sqlite3_open(path().c_str(), &database), SQLITE_OK);
    ASSERT_EQ(sqlite3_exec(database, sql.c_str(), nullptr, nullptr, nullptr), SQLITE_OK);
    sqlite3_close(database);
  }

  std::string directory_;
};

mode_t ModeOf(const std::string& path) {
  struct stat facts {};
  EXPECT_EQ(::stat(path.c_str(), &facts), 0) << path;
  return facts.st_mode & 07777;
}

// It holds the environment of jobs.
TEST_F(EventLogTest, IsForItsUserAloneWhateverTheUmask) {
  const mode_t before = ::umask(0);
  { ASSERT_TRUE(EventLog::Open(path()).ok()); }
  ASSERT_EQ(::chmod(path().c_str(), 0644), 0);  // as earlier releases made it
  const auto log = EventLog::Open(path());
  ::umask(before);
  ASSERT_TRUE(log.ok()) << log.status();
  for (const char* suffix : {"", "-wal", "-shm", ".lock"}) {
    EXPECT_EQ(ModeOf(path() + suffix), 0600u) << suffix;
  }
}

TEST_F(EventLogTest, GivesBackWhatWasAppendedAfterReopening) {
  {
    auto log = *EventLog::Open(path());
    ASSERT_TRUE(log->Append(std::vector{Entry(10, "a", 1), Entry(20, "b", 0)}).ok());
    ASSERT_TRUE(log->Append(std::vector{Entry(30, "c", 2)}).ok());
  }
  auto log = *EventLog::Open(path());
  EXPECT_EQ(log->last_sequence(), 3u);
  EXPECT_EQ(log->last_instant(), InstantFromNanoseconds(30));
  std::vector<std::string> seen;
  ASSERT_TRUE(log->Replay([&](uint64_t sequence, Instant now, const proto::Event& event) {
                   seen.push_back(std::to_string(sequence) + "@" +
                                  std::to_string(ToNanoseconds(now)) + " " +
                                  event.job_stop_requested().job_id());
                   return Status();
                 })
                  .ok());
  EXPECT_EQ(seen, (std::vector<std::string>{"1@10 a", "2@20 b", "3@30 c"}));
}

TEST_F(EventLogTest, OfVersion1IsMigratedAndReadWhole) {
  {
    auto log = *EventLog::Open(path());
    ASSERT_TRUE(log->Append(std::vector{Entry(10, "a", 1), Entry(20, "b", 0)}).ok());
  }
  Sql("ALTER TABLE notifications RENAME COLUMN notification TO notice;"
      "ALTER TABLE notifications RENAME TO licences;"
      "UPDATE licences SET kind='epoch';"
      "PRAGMA user_version=1;");
  for (int opened = 0; opened < 2; ++opened) {
    const auto log = EventLog::Open(path());
    ASSERT_TRUE(log.ok()) << log.status();
    EXPECT_EQ((*log)->last_sequence(), 2u);
    const auto notifications = (*log)->Notifications(0, JobId(), 10);
    ASSERT_TRUE(notifications.ok()) << notifications.status();
    ASSERT_EQ(notifications->size(), 1u);
    EXPECT_EQ((*notifications)[0].notification.message().text(), "notification 0");
    EXPECT_EQ((*notifications)[0].id, 1000u);
  }
}

TEST_F(EventLogTest, NumbersNotificationsByEventAndFiltersThemByJob) {
  auto log = *EventLog::Open(path());
  ASSERT_TRUE(log->Append(std::vector{Entry(1, "a", 2), Entry(2, "b", 1), Entry(3, "a", 1)}).ok());
  std::vector<uint64_t> all;
  for (const auto& notification : *log->Notifications(0, JobId(), 100))
    all.push_back(notification.id);
  EXPECT_EQ(all, (std::vector<uint64_t>{1000, 1001, 2000, 3000}));
  std::vector<uint64_t> later_of_a;
  for (const auto& notification : *log->Notifications(1000, JobId("a"), 100))
    later_of_a.push_back(notification.id);
  EXPECT_EQ(later_of_a, (std::vector<uint64_t>{1001, 3000}));
  EXPECT_EQ(log->Notifications(0, JobId(), 3)->size(), 3u);
}

TEST_F(EventLogTest, ReadsPastEventsWhileItIsInUse) {
  auto log = *EventLog::Open(path());
  ASSERT_TRUE(log->Append(std::vector{Entry(1, "a", 2), Entry(2, "b", 1), Entry(3, "a", 0)}).ok());
  const auto later = log->EventsAfter(1, 10);
  ASSERT_TRUE(later.ok()) << later.status();
  ASSERT_EQ(later->size(), 2u);
  EXPECT_EQ((*later)[0].sequence, 2u);
  EXPECT_EQ((*later)[1].now, Entry(3, "a", 0).now);
  EXPECT_EQ(log->EventsAfter(0, 2)->size(), 2u);
  EXPECT_TRUE(log->EventsAfter(3, 2)->empty());
}

TEST_F(EventLogTest, RefusesASecondController) {
  auto log = *EventLog::Open(path());
  EXPECT_EQ(EventLog::Open(path()).status().code(), Code::kAlreadyExists);
}

TEST_F(EventLogTest, RefusesAFileThatIsNoDatabase) {
  std::ofstream(path()) << std::string(5000, 'x');
  const Status status = EventLog::Open(path()).status();
  EXPECT_EQ(status.code(), Code::kDataLoss) << status;
  EXPECT_NE(status.message().find("move it away"), std::string::npos) << status;
}

TEST_F(EventLogTest, RefusesAnotherProgramsDatabase) {
  Sql("CREATE TABLE t(x)");
  EXPECT_EQ(EventLog::Open(path()).status().code(), Code::kDataLoss);
}

TEST_F(EventLogTest, RefusesANewerFormat) {
  (void)*EventLog::Open(path());
  Sql("PRAGMA user_version=3");
  EXPECT_EQ(EventLog::Open(path()).status().code(), Code::kFailedPrecondition);
}

TEST_F(EventLogTest, DetectsAMissingEvent) {
  {
    auto log = *EventLog::Open(path());
    ASSERT_TRUE(log->Append(std::vector{Entry(1, "a", 0), Entry(2, "b", 0)}).ok());
  }
  Sql("DELETE FROM events WHERE sequence=1");
  auto log = *EventLog::Open(path());
  EXPECT_EQ(log->Replay([](uint64_t, Instant, const proto::Event&) { return Status(); }).code(),
            Code::kDataLoss);
}

// A batch that fails leaves nothing, and the same batch can be appended once there is room.
TEST_F(EventLogTest, AppendsAllOrNothingWhenTheDiskIsFull) {
  auto log = *EventLog::Open(path());
  ASSERT_TRUE(log->Append(std::vector{Entry(1, "a", 0)}).ok());
  LogEntry large = Entry(2, std::string(1 << 20, 'x'), 0);
  log->LimitSize(Bytes(16 * 4096));
  const std::vector<LogEntry> batch = {Entry(2, "b", 0), large};
  EXPECT_EQ(log->Append(batch).code(), Code::kResourceExhausted);
  EXPECT_EQ(log->last_sequence(), 1u);
  log->LimitSize(Bytes(int64_t{1} << 40));
  EXPECT_TRUE(log->Append(batch).ok());
  EXPECT_EQ(log->last_sequence(), 3u);
}

}  // namespace
}  // namespace longhaul::service
