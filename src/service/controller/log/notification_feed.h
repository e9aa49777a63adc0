// What people are told, for any number of watchers at their own pace.
//
// The newest notifications are kept in memory, already as JSON; older ones come from the event log.
// A watcher holds nothing but the id of what it has seen, so a slow one costs nothing and a lost
// one continues where it was. Thread-safe.
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
  JobId job;          // empty: not one job's
  std::string kind;   // state, attempt, step, snapshot, fault, message, node
  std::string json;   // {"at_ns":..., "job_id":..., KIND: {...}}
  bool last = false;  // the job's terminal state: nothing of it comes after
};

RenderedNotification Render(const LoggedNotification& logged);

class NotificationFeed {
 public:
  static constexpr size_t kKept = 4096;

  // Requires that `log` outlives this and that only later notifications are published.
  explicit NotificationFeed(EventLog& log);

  // Requires that they are in the log and in order.
  void Publish(const std::vector<LoggedNotification>& notifications);

  struct Batch {
    std::vector<RenderedNotification> notifications;
    uint64_t through = 0;  // all up to this id have been looked at: ask for what comes after it
  };
  // The notifications after an id, at most `limit`, at once.
  Result<Batch> After(uint64_t id, const JobId& job, size_t limit);

  // Waits until something (of any job) is published after `id`, the time is over, or Close. Returns
  // the newest id then.
  uint64_t Wait(uint64_t id, Duration limit);

  // Ends all waiting; the service stops.
  void Close();
  bool closed() const;

 private:
  EventLog& log_;
  mutable std::mutex mutex_;  // guards all below
  std::condition_variable published_;
  std::deque<RenderedNotification> newest_;
  uint64_t from_;  // newest_ has all notifications with ids above this
  bool closed_ = false;
};

}  // namespace longhaul::service
