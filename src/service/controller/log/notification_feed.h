// Notifications for any number of watchers, each at its own pace.
//
// The newest notifications are kept in memory as JSON; older ones are read from the event log. A
// watcher's only state is the id of its last notification, so a slow watcher costs nothing and one
// that reconnects continues where it was. Thread-safe.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <mutex>
#include <string>
#include <vector>

#include "base/ids.h"
#include "base/status.h"
#include "base/time.h"
#include "service/controller/log/event_log.h"

namespace longhaul::service {

struct RenderedNotification {
  uint64_t id = 0;
  JobId job;          // empty: not about one job
  std::string kind;   // state, attempt, step, snapshot, fault, message, node
  std::string json;   // {"at_ns":..., "job_id":..., KIND: {...}}
  bool last = false;  // the job's terminal state: its last notification
};

RenderedNotification Render(const LoggedNotification& logged);

class NotificationFeed {
 public:
  static constexpr size_t kKept = 4096;

  // Requires that `log` outlives this and that only later notifications are published.
  explicit NotificationFeed(EventLog& log);

  // Requires that the notifications are in the log, and in order.
  void Publish(const std::vector<LoggedNotification>& notifications);

  // Later notifications continue after the log's present end. Call it before the first Publish, if
  // the log was read further since the construction.
  void StartAtEndOfLog();

  struct Batch {
    std::vector<RenderedNotification> notifications;
    // Everything up to this id was searched; the next request starts after it.
    uint64_t through = 0;
  };
  // Returns the notifications after an id, at most `limit`, without blocking.
  Result<Batch> After(uint64_t id, const JobId& job, size_t limit);

  // Returns the logged notifications of a job after an id, oldest first, at most `limit`.
  Result<std::vector<LoggedNotification>> Logged(uint64_t after, const JobId& job, size_t limit) {
    return log_.Notifications(after, job, limit);
  }

  // Returns the logged events after a sequence, oldest first, at most `limit`.
  Result<std::vector<LoggedEvent>> LoggedEvents(uint64_t after, size_t limit) {
    return log_.EventsAfter(after, limit);
  }

  // Blocks until a notification (of any job) after `id` is published, the time is over, or Close.
  // Returns the newest id.
  uint64_t Wait(uint64_t id, Duration limit);

  // The id of the newest notification.
  uint64_t newest() const;

  // Returns how many notifications of the job (or of any) after an id there are in memory. All of
  // those in memory count as the job's if there are more in the log.
  size_t Backlog(uint64_t id, const JobId& job) const;

  // Ends all waits; the service stops.
  void Close();
  bool closed() const;

 private:
  EventLog& log_;
  mutable std::mutex mutex_;  // guards all below
  std::condition_variable published_;
  std::deque<RenderedNotification> newest_;
  uint64_t from_ = 0;  // newest_ has all notifications with ids above this
  bool closed_ = false;
};

}  // namespace longhaul::service
