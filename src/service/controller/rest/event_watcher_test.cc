#include "service/controller/rest/event_watcher.h"

#include <gtest/gtest.h>

#include "base/temporary_folder.h"

namespace longhaul::service {
namespace {

class EventWatcherTest : public testing::Test {
 protected:
  EventWatcherTest() {
    log_ = *EventLog::Open(folder_.path() + "/events.db");
    feed_ = std::make_unique<NotificationFeed>(*log_);
  }

  void Publish(const std::string& job, size_t steps) {
    std::vector<LoggedNotification> logged(steps);
    for (LoggedNotification& each : logged) {
      each.id = ++last_id_;
      each.notification.set_job_id(job);
      each.notification.mutable_step()->set_step(each.id);
    }
    feed_->Publish(logged);
  }

  std::unique_ptr<EventWatcher> Watch(bool view) {
    EventStream stream;
    stream.job = JobId("a");
    stream.after = last_id_;
    stream.view = view;
    ++*open_;
    return std::make_unique<EventWatcher>(*feed_, stream, open_, [this] { return now_; });
  }

  const TemporaryFolder folder_{testing::TempDir()};
  std::unique_ptr<EventLog> log_;
  std::unique_ptr<NotificationFeed> feed_;
  std::shared_ptr<std::atomic<uint64_t>> open_ = std::make_shared<std::atomic<uint64_t>>(0);
  uint64_t last_id_ = 10 * kNotificationsPerEvent;
  Instant now_ = Instant() + std::chrono::hours(1);
};

size_t EventsIn(const std::string& bytes) {
  size_t events = 0;
  for (size_t at = 0; (at = bytes.find("event: step", at)) != std::string::npos; ++at) ++events;
  return events;
}

TEST_F(EventWatcherTest, SendsAPageThatIsFarBehindAResetAndContinuesAfterIt) {
  const auto page = Watch(true);
  Publish("a", EventWatcher::kLongestViewBacklog + 1);
  EXPECT_EQ(page->Next().bytes, "id: " + std::to_string(last_id_) + "\nevent: reset\ndata: {}\n\n");
  EXPECT_EQ(page->Next().bytes, "");
  Publish("a", 1);
  EXPECT_EQ(EventsIn(page->Next().bytes), 1u);
}

TEST_F(EventWatcherTest, SkipsNothingOfASmallerBacklogAndOfOtherJobs) {
  const auto page = Watch(true);
  Publish("a", 100);
  Publish("b", EventWatcher::kLongestViewBacklog + 1);
  EXPECT_EQ(EventsIn(page->Next().bytes), 100u);
}

TEST_F(EventWatcherTest, SkipsNothingForAProgram) {
  const auto program = Watch(false);
  Publish("a", EventWatcher::kLongestViewBacklog + 1);
  size_t events = 0;
  for (std::string bytes = program->Next().bytes; !bytes.empty(); bytes = program->Next().bytes) {
    events += EventsIn(bytes);
  }
  EXPECT_EQ(events, EventWatcher::kLongestViewBacklog + 1);
}

TEST_F(EventWatcherTest, ReportsThatItIsAliveAsAnEventToAPageAndAsACommentToAProgram) {
  const auto page = Watch(true);
  const auto program = Watch(false);
  now_ += EventWatcher::kAlive;
  EXPECT_EQ(page->Next().bytes, "");
  now_ += std::chrono::nanoseconds(1);
  EXPECT_EQ(page->Next().bytes, "event: alive\ndata: {}\n\n");
  EXPECT_EQ(page->Next().bytes, "") << "once in each period";
  EXPECT_EQ(program->Next().bytes, "");
  now_ += EventWatcher::kKeepAlive;
  EXPECT_EQ(program->Next().bytes, ": still here\n\n");
}

TEST_F(EventWatcherTest, SendsAllThatWasPublishedBeforeTheControllerEnds) {
  for (const bool view : {true, false}) {
    const auto watcher = Watch(view);
    Publish("a", EventWatcher::kLongestViewBacklog + 1);
    feed_->Close();
    size_t events = 0;
    HttpStream::Part part;
    do {
      part = watcher->Next();
      events += EventsIn(part.bytes);
    } while (!part.last);
    EXPECT_EQ(events, EventWatcher::kLongestViewBacklog + 1);
  }
}

TEST_F(EventWatcherTest, IsCountedUntilItsEnd) {
  auto page = Watch(true);
  EXPECT_EQ(*open_, 1u);
  page.reset();
  EXPECT_EQ(*open_, 0u);
}

}  // namespace
}  // namespace longhaul::service
