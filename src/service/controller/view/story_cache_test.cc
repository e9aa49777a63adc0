#include "service/controller/view/story_cache.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/temporary_folder.h"
#include "story/story.h"

namespace longhaul::service {
namespace {

class StoryCacheTest : public testing::Test {
 protected:
  StoryCacheTest() {
    log_ = *EventLog::Open(folder_.path() + "/events.db");
    feed_ = std::make_unique<NotificationFeed>(*log_);
  }

  // The end of a worker of the job, and the fault that follows from it.
  void LogFault(const std::string& job, uint32_t number, uint32_t rank) {
    LogEntry entry;
    entry.now = Instant() + std::chrono::seconds(10 * number);
    entry.event.set_node("node-1");
    auto& exited = *entry.event.mutable_worker_exited();
    exited.set_job_id(job);
    exited.set_attempt(1);
    exited.set_rank(rank);
    exited.set_signal(9);
    if (number == 1) {
      proto::Notification& attempt = entry.notifications.emplace_back();
      attempt.set_job_id(job);
      attempt.mutable_attempt()->set_attempt(1);
    }
    proto::Notification& notification = entry.notifications.emplace_back();
    notification.set_job_id(job);
    auto& fault = *notification.mutable_fault();
    fault.set_number(number);
    fault.set_class_name("process");
    fault.set_rank(static_cast<int32_t>(rank));
    fault.set_happened_at_ns(ToNanoseconds(entry.now));
    fault.set_detected_at_ns(ToNanoseconds(entry.now));
    ASSERT_TRUE(log_->Append({&entry, 1}).ok());
  }

  const TemporaryFolder folder_{testing::TempDir()};
  std::unique_ptr<EventLog> log_;
  std::unique_ptr<NotificationFeed> feed_;
};

TEST_F(StoryCacheTest, ReadsTheEvidenceOnceAndGoesOn) {
  StoryCache cache(*feed_);
  EXPECT_TRUE(cache.Of(JobId("a")).notifications.empty());
  LogFault("b", 1, 7);
  LogFault("a", 1, 1);
  const story::Story first = story::MakeStory(cache.Of(JobId("a")));
  ASSERT_EQ(first.faults.size(), 1u);
  EXPECT_EQ(first.faults[0].signal, 9);
  EXPECT_THAT(first.faults[0].observations,
              testing::ElementsAre(testing::Field(
                  &story::Moment::text, "Worker 1 on node-1 was ended by signal 9 (SIGKILL).")));
  LogFault("a", 2, 3);
  const story::RunRecord second = cache.Of(JobId("a"));
  EXPECT_EQ(second.events.size(), 2u) << "each once";
  EXPECT_EQ(story::MakeStory(second).faults.size(), 2u);
  EXPECT_EQ(cache.Of(JobId("a")).events.size(), 2u);
}

TEST_F(StoryCacheTest, DropsTheRunThatWasViewedLongestAgo) {
  StoryCache cache(*feed_);
  LogFault("run-0", 1, 1);
  for (size_t i = 0; i <= StoryCache::kMostRuns; ++i) {
    cache.Of(JobId("run-" + std::to_string(i)));
  }
  EXPECT_EQ(cache.Of(JobId("run-0")).events.size(), 1u) << "read again";
}

}  // namespace
}  // namespace longhaul::service
