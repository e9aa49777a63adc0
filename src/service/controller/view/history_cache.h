// The histories of the runs that somebody looks at.
//
// A history is read from the event log when its run is first viewed, and continues from where it
// was at each later view: a run that nobody views costs nothing, and a controller that has
// restarted shows the whole past. Thread-safe.
#pragma once

#include <cstdint>
#include <mutex>

#include "base/ids.h"
#include "base/status.h"
#include "service/controller/log/notification_feed.h"
#include "service/controller/view/recent_runs.h"
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
    explicit Entry(const JobId& /*job*/) {}

    std::mutex mutex;  // guards the two below
    RunHistory history;
    uint64_t as_of = 0;
  };

  NotificationFeed& feed_;
  RecentRuns<Entry> runs_{kMostRuns};
};

}  // namespace longhaul::service
