#include "service/controller/standby/postgres_log.h"

#include <gtest/gtest.h>

#include <condition_variable>
#include <memory>
#include <mutex>
#include <optional>
#include <thread>

#include "service/controller/standby/leadership.h"
#include "service/controller/standby/postgres_fixture.h"

namespace longhaul::service {
namespace {

constexpr Duration kLong = std::chrono::minutes(10);
constexpr Duration kQueryLimit = std::chrono::seconds(30);

class PostgresLogTest : public testing::Test {
 protected:
  static void SetUpTestSuite() {
    if (PostgresServer::Missing().empty()) server_ = std::make_unique<PostgresServer>();
  }
  static void TearDownTestSuite() { server_.reset(); }
  void SetUp() override {
    if (server_ == nullptr) GTEST_SKIP() << PostgresServer::Missing();
    address_ = server_->MakeDatabase();
  }

  std::unique_ptr<PostgresLog> OpenLog() const {
    auto log = PostgresLog::Open(*address_, "cluster");
    EXPECT_TRUE(log.ok()) << log.status();
    return *std::move(log);
  }
  std::unique_ptr<Leadership> MakeLeadership(Duration lease = kLong) const {
    LeadershipOptions options;
    options.address = *address_;
    options.lease = lease;
    options.holder = "this test";
    return std::make_unique<Leadership>(options);
  }
  // Tries until it leads; returns the term.
  static uint64_t Lead(Leadership& leadership) {
    while (true) {
      const auto term = leadership.Try();
      if (!term.ok() || term->has_value()) return term.ok() ? **term : 0;
      std::this_thread::yield();
    }
  }
  PostgresRows Sql(const char* sql) const {
    PostgresConnection connection(*address_);
    auto rows = connection.Query(sql, {}, kQueryLimit);
    EXPECT_TRUE(rows.ok()) << rows.status();
    return *std::move(rows);
  }
  int64_t Events() const { return Sql("SELECT count(*) FROM longhaul.events").Number(0, 0); }

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

  static std::unique_ptr<PostgresServer> server_;
  std::optional<PostgresAddress> address_;
};

std::unique_ptr<PostgresServer> PostgresLogTest::server_;

TEST_F(PostgresLogTest, GivesBackWhatWasAppended) {
  const auto log = OpenLog();
  const auto leadership = MakeLeadership();
  log->Lead(Lead(*leadership));
  const LogEntry first[] = {Entry(10, "a", 2), Entry(20, "b", 1)};
  const LogEntry second[] = {Entry(30, std::string("c\0d", 3), 0)};
  ASSERT_TRUE(log->Append(first).ok());
  ASSERT_TRUE(log->Append(second).ok());
  EXPECT_EQ(log->last_sequence(), 3u);
  EXPECT_EQ(ToNanoseconds(log->last_instant()), 30);

  const auto follower = OpenLog();
  std::vector<std::string> jobs;
  const auto take = [&jobs](uint64_t sequence, Instant now, const proto::Event& event) {
    EXPECT_EQ(ToNanoseconds(now), static_cast<int64_t>(10 * sequence));
    jobs.push_back(event.job_stop_requested().job_id());
    return Status();
  };
  ASSERT_TRUE(follower->ReplayAfter(1, take).ok());
  EXPECT_EQ(jobs, (std::vector<std::string>{"b", std::string("c\0d", 3)}));
  EXPECT_EQ(follower->last_sequence(), 3u);

  const auto all = follower->Notifications(0, JobId(), 10);
  ASSERT_TRUE(all.ok()) << all.status();
  ASSERT_EQ(all->size(), 3u);
  EXPECT_EQ((*all)[1].id, 1 * kNotificationsPerEvent + 1);
  const auto events = follower->EventsAfter(1, 1);
  ASSERT_TRUE(events.ok()) << events.status();
  ASSERT_EQ(events->size(), 1u);
  EXPECT_EQ((*events)[0].sequence, 2u);
  const auto of_b = follower->Notifications(0, JobId("b"), 10);
  ASSERT_TRUE(of_b.ok() && of_b->size() == 1);
  EXPECT_EQ((*of_b)[0].id, 2 * kNotificationsPerEvent);
}

TEST_F(PostgresLogTest, AddsNothingForAControllerThatDoesNotLead) {
  const auto log = OpenLog();
  const LogEntry batch[] = {Entry(10, "a", 1)};
  EXPECT_EQ(log->Append(batch).code(), Code::kAborted);
  EXPECT_EQ(Events(), 0);
}

TEST_F(PostgresLogTest, AddsNothingUnderATermThatHasEnded) {
  const auto log = OpenLog();
  const auto first = MakeLeadership(std::chrono::milliseconds(1));
  log->Lead(Lead(*first));
  const LogEntry batch[] = {Entry(10, "a", 1)};
  ASSERT_TRUE(log->Append(batch).ok());
  const auto second = MakeLeadership();
  EXPECT_EQ(Lead(*second), 2u);  // the session of the first one is still there
  EXPECT_EQ(log->Append(batch).code(), Code::kAborted);
  EXPECT_EQ(Events(), 1);
}

// As after a connection that was lost before the answer: the same batch comes again.
TEST_F(PostgresLogTest, AddsABatchOnceThatIsSentTwice) {
  const auto leadership = MakeLeadership();
  const auto log = OpenLog(), same = OpenLog();
  const uint64_t term = Lead(*leadership);
  log->Lead(term);
  same->Lead(term);
  const LogEntry batch[] = {Entry(10, "a", 1), Entry(20, "b", 1)};
  ASSERT_TRUE(log->Append(batch).ok());
  EXPECT_TRUE(same->Append(batch).ok());
  EXPECT_EQ(same->last_sequence(), 2u);
  EXPECT_EQ(Events(), 2);
}

TEST_F(PostgresLogTest, ReportsAMissingEvent) {
  const auto log = OpenLog();
  const auto leadership = MakeLeadership();
  log->Lead(Lead(*leadership));
  const LogEntry batch[] = {Entry(10, "a", 0), Entry(20, "b", 0), Entry(30, "c", 0)};
  ASSERT_TRUE(log->Append(batch).ok());
  (void)Sql("DELETE FROM longhaul.events WHERE sequence = 2");
  const Status status =
      log->Replay([](uint64_t, Instant, const proto::Event&) { return Status(); });
  EXPECT_EQ(status.code(), Code::kDataLoss);
}

TEST_F(PostgresLogTest, RefusesTheLogOfAnotherClusterOrFormat) {
  (void)OpenLog();
  EXPECT_EQ(PostgresLog::Open(*address_, "other").status().code(), Code::kFailedPrecondition);
  (void)Sql("UPDATE longhaul.meta SET value = '99' WHERE key = 'format'");
  EXPECT_EQ(PostgresLog::Open(*address_, "cluster").status().code(), Code::kFailedPrecondition);
}

TEST_F(PostgresLogTest, KeepsDocumentsForTheNextLeader) {
  const auto log = OpenLog();
  const auto first = MakeLeadership(std::chrono::milliseconds(1));
  log->Lead(Lead(*first));
  EXPECT_EQ(log->Document("tokens.json")->Read(100).status().code(), Code::kNotFound);
  ASSERT_TRUE(log->Document("tokens.json")->Write("one").ok());
  ASSERT_TRUE(log->Document("tokens.json")->Write("two").ok());

  const auto next = OpenLog();
  const auto second = MakeLeadership();
  next->Lead(Lead(*second));
  EXPECT_EQ(log->Document("tokens.json")->Write("three").code(), Code::kAborted);
  const auto text = next->Document("tokens.json")->Read(100);
  ASSERT_TRUE(text.ok()) << text.status();
  EXPECT_EQ(*text, "two");
  EXPECT_EQ(next->Document("tokens.json")->Read(2).status().code(), Code::kResourceExhausted);
}

TEST_F(PostgresLogTest, OneLeadsUntilItsSessionEnds) {
  (void)OpenLog();
  const auto first = MakeLeadership(), second = MakeLeadership();
  EXPECT_EQ(Lead(*first), 1u);
  const auto tried = second->Try();
  ASSERT_TRUE(tried.ok()) << tried.status();
  EXPECT_FALSE(tried->has_value());
  EXPECT_NE(second->leader().find("this test"), std::string::npos);
  first->Stop();
  EXPECT_EQ(Lead(*second), 2u);
}

// Else a slow disk under an append would cost the leader its lease.
TEST_F(PostgresLogTest, ARenewalDoesNotWaitForAnAppendUnderWay) {
  (void)OpenLog();
  const auto leadership = MakeLeadership(std::chrono::seconds(3));
  ASSERT_EQ(Lead(*leadership), 1u);
  PostgresConnection append(*address_);
  ASSERT_TRUE(append.Query("BEGIN", {}, kQueryLimit).ok());
  ASSERT_TRUE(append.Query("SELECT 1 FROM longhaul.leader FOR KEY SHARE", {}, kQueryLimit).ok());
  (void)Sql("CREATE TABLE seen AS SELECT lease_end FROM longhaul.leader");
  leadership->Keep([](const Status& reason) { ADD_FAILURE() << reason; });
  const char* const renewed =
      "SELECT count(*) FROM longhaul.leader, seen WHERE leader.lease_end > seen.lease_end";
  while (Sql(renewed).Number(0, 0) == 0 && !HasFailure()) std::this_thread::yield();
  ASSERT_TRUE(append.Query("COMMIT", {}, kQueryLimit).ok());
}

TEST_F(PostgresLogTest, ALeaderNoticesThatItsTermHasEnded) {
  (void)OpenLog();
  const auto leadership = MakeLeadership(std::chrono::seconds(3));
  std::mutex mutex;
  std::condition_variable changed;
  Status lost;
  ASSERT_EQ(Lead(*leadership), 1u);
  (void)Sql("UPDATE longhaul.leader SET term = 2");
  leadership->Keep([&](const Status& reason) {
    const std::lock_guard lock(mutex);
    lost = reason;
    changed.notify_all();
  });
  std::unique_lock lock(mutex);
  EXPECT_TRUE(changed.wait_for(lock, std::chrono::seconds(60), [&] { return !lost.ok(); }));
  EXPECT_EQ(lost.code(), Code::kAborted);
}

TEST(PostgresAddress, TakesNoPasswordAndShowsNone) {
  if (!LoadPostgresLibrary().ok()) GTEST_SKIP() << LoadPostgresLibrary().status().message();
  const auto address = PostgresAddress::Parse("postgresql://user@db.example:5433/longhaul");
  ASSERT_TRUE(address.ok()) << address.status();
  EXPECT_EQ(address->shown, "postgresql://db.example:5433/longhaul");
  for (const char* wrong :
       {"", "host=db", "postgresql://u:hidden@db/longhaul", "postgresql://db/x?password=hidden",
        "postgresql://u:hidden@[db/x", "postgresql://db/x?unknown=hidden", "mysql://hidden@db"}) {
    const auto refused = PostgresAddress::Parse(wrong);
    EXPECT_EQ(refused.status().code(), Code::kInvalidArgument) << wrong;
    if (std::string(wrong).find("unknown") != std::string::npos) continue;
    EXPECT_EQ(refused.status().message().find("hidden"), std::string::npos)
        << refused.status().message();
  }
}

}  // namespace
}  // namespace longhaul::service
