// The histories of the runs that somebody looks at.
//
// A history is read from the event log when its run is first viewed, and continues from where it
// was at each later view: a run that nobody views costs nothing, and a controller that has
// restarted shows the whole past. Thread-safe.
#pragma once

#include <cstdint>
#include <list>
#include <memory>
#include <mutex>
#include <utility>

#include "base/ids.h"
#include "base/status.h"
#include "service/controller/log/notification_feed.h"
#include "service/controller/view/run_history.h"

namespace longhaul::service {

class HistoryCache {
 public:
  static constexpr size_t kMostRuns = 32;  // the least recently viewed one is dropped

  // Requires that `feed` outlives this.
  explicit HistoryCache(NotificationFeed& feed) : feed_(feed) {}

  // A copy, and the id of the last notification that is in it.
  struct Snapshot {
    RunHistory history;
    uint64_t as_of = 0;
  };
  Result<Snapshot> Of(const JobId& job);

 private:
  struct Entry {
    std::mutex mutex;  // guards the two below
    RunHistory history;
    uint64_t as_of = 0;
  };
  std::shared_ptr<Entry> EntryOf(const JobId& job);

  NotificationFeed& feed_;
  std::mutex mutex_;  // guards entries_
  // The most recently viewed one first. Shared with the requests that read one now.
  std::list<std::pair<JobId, std::shared_ptr<Entry>>> entries_;
};

}  // namespace longhaul::service
