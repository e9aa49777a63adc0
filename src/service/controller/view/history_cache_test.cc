#include "service/controller/view/history_cache.h"

#include <gtest/gtest.h>

#include <cmath>

#include "base/temporary_folder.h"

namespace longhaul::service {
namespace {

class HistoryCacheTest : public testing::Test {
 protected:
  HistoryCacheTest() {
    log_ = *EventLog::Open(folder_.path() + "/events.db");
    feed_ = std::make_unique<NotificationFeed>(*log_);
  }

  void Log(const std::string& job, uint64_t step, double loss) {
    LogEntry entry;
    entry.now = Instant() + std::chrono::seconds(static_cast<int64_t>(step));
    proto::Notification& notification = entry.notifications.emplace_back();
    notification.set_job_id(job);
    notification.set_at_ns(ToNanoseconds(entry.now));
    notification.mutable_step()->set_step(step);
    notification.mutable_step()->set_loss(loss);
    notification.mutable_step()->set_has_loss(true);
    ASSERT_TRUE(log_->Append({&entry, 1}).ok());
  }

  const TemporaryFolder folder_{testing::TempDir()};
  std::unique_ptr<EventLog> log_;
  std::unique_ptr<NotificationFeed> feed_;
};

TEST_F(HistoryCacheTest, ReadsThePastOnceAndGoesOn) {
  HistoryCache cache(*feed_);
  EXPECT_EQ(cache.Of(JobId("a"))->as_of, 0u);
  for (uint64_t step = 1; step <= 3; ++step) Log("a", step, 10.0 - static_cast<double>(step));
  Log("b", 4, 1);
  const auto three = cache.Of(JobId("a"));
  EXPECT_EQ(three->history.loss().buckets().size(), 3u);
  EXPECT_EQ(three->as_of, 3 * kNotificationsPerEvent);
  Log("a", 5, std::nan(""));
  const auto four = cache.Of(JobId("a"));
  ASSERT_EQ(four->history.loss().buckets().size(), 4u);
  EXPECT_EQ(four->history.loss().buckets()[3].not_finite, 1u);
  // Another cache, as after a restart of the controller, gets the same from the log.
  HistoryCache restarted(*feed_);
  const auto again = restarted.Of(JobId("a"));
  EXPECT_EQ(again->as_of, four->as_of);
  EXPECT_EQ(again->history.loss().buckets().size(), 4u);
}

TEST_F(HistoryCacheTest, DropsTheRunThatWasViewedLongestAgo) {
  HistoryCache cache(*feed_);
  Log("run-0", 1, 1);
  for (size_t i = 0; i <= HistoryCache::kMostRuns; ++i) {
    ASSERT_TRUE(cache.Of(JobId("run-" + std::to_string(i))).ok());
  }
  EXPECT_EQ(cache.Of(JobId("run-0"))->history.loss().buckets().size(), 1u) << "read again";
}

}  // namespace
}  // namespace longhaul::service
