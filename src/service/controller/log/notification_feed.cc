#include "service/controller/log/notification_feed.h"

#include <algorithm>

#include "proto/json.h"
#include "runtime/controller/controller.h"

namespace longhaul::service {

RenderedNotification Render(const LoggedNotification& logged) {
  const proto::Notification& notification = logged.notification;
  const auto* kind = proto::Notification::descriptor()->FindFieldByNumber(notification.kind_case());
  RenderedNotification rendered;
  rendered.id = logged.id;
  rendered.job = JobId(notification.job_id());
  rendered.kind = kind == nullptr ? "none" : kind->name();
  // Text from workers may hold any bytes: what is not UTF-8 becomes U+FFFD.
  rendered.json = proto::ToJson(notification)
                      .dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace);
  rendered.last = notification.has_state() && runtime::IsTerminal(notification.state().state());
  return rendered;
}

NotificationFeed::NotificationFeed(EventLog& log) : log_(log) { StartAtEndOfLog(); }

// Ids below `from_` are read from the log, so nothing has to be loaded at the start.
void NotificationFeed::StartAtEndOfLog() {
  const std::lock_guard lock(mutex_);
  from_ = (log_.last_sequence() + 1) * kNotificationsPerEvent - 1;
}

// Rendered once for all watchers, and outside of the lock.
void NotificationFeed::Publish(const std::vector<LoggedNotification>& notifications) {
  if (notifications.empty()) return;
  std::vector<RenderedNotification> rendered;
  rendered.reserve(notifications.size());
  for (const LoggedNotification& notification : notifications)
    rendered.push_back(Render(notification));
  {
    std::lock_guard lock(mutex_);
    for (RenderedNotification& notification : rendered) newest_.push_back(std::move(notification));
    while (newest_.size() > kKept) {
      from_ = newest_.front().id;
      newest_.pop_front();
    }
  }
  published_.notify_all();
}

Result<NotificationFeed::Batch> NotificationFeed::After(uint64_t id, const JobId& job,
                                                        size_t limit) {
  Batch batch;
  {
    std::lock_guard lock(mutex_);
    // Read before the log, so that notifications that are published in between are returned by the
    // next call.
    const uint64_t newest = newest_.empty() ? from_ : newest_.back().id;
    batch.through = std::max(id, newest);
    if (id >= from_) {
      auto next = std::upper_bound(newest_.begin(), newest_.end(), id,
                                   [](uint64_t value, const RenderedNotification& notification) {
                                     return value < notification.id;
                                   });
      for (; next != newest_.end() && batch.notifications.size() < limit; ++next) {
        if (job.empty() || next->job == job) batch.notifications.push_back(*next);
      }
      // The limit was reached, so the caller continues after the last one that it got.
      if (next != newest_.end()) batch.through = batch.notifications.back().id;
      return batch;
    }
  }
  // The log may have more than was published; what is returned twice is what a later call filters
  // by `through`, so that must not be below it.
  ASSIGN_OR_RETURN(const std::vector<LoggedNotification> logged,
                   log_.Notifications(id, job, limit));
  for (const LoggedNotification& notification : logged)
    batch.notifications.push_back(Render(notification));
  if (!logged.empty() && (logged.size() == limit || logged.back().id > batch.through)) {
    batch.through = logged.back().id;
  }
  return batch;
}

uint64_t NotificationFeed::Wait(uint64_t id, Duration limit) {
  std::unique_lock lock(mutex_);
  published_.wait_for(lock, limit,
                      [&] { return closed_ || (!newest_.empty() && newest_.back().id > id); });
  return newest_.empty() ? from_ : newest_.back().id;
}

uint64_t NotificationFeed::newest() const {
  const std::lock_guard lock(mutex_);
  return newest_.empty() ? from_ : newest_.back().id;
}

size_t NotificationFeed::Backlog(uint64_t id, const JobId& job) const {
  const std::lock_guard lock(mutex_);
  if (id < from_) return newest_.size();
  size_t count = 0;
  for (auto each = newest_.rbegin(); each != newest_.rend() && each->id > id; ++each) {
    count += job.empty() || each->job == job;
  }
  return count;
}

void NotificationFeed::Close() {
  {
    std::lock_guard lock(mutex_);
    closed_ = true;
  }
  published_.notify_all();
}

bool NotificationFeed::closed() const {
  std::lock_guard lock(mutex_);
  return closed_;
}

}  // namespace longhaul::service
