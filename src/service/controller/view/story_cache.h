// The records of the runs whose faults somebody looks at, from which their stories are made.
//
// As in history_cache.h: a record is read from the event log when a fault of its run is first
// viewed, and continues from where it was at each later view. Thread-safe.
#pragma once

#include <cstdint>
#include <mutex>

#include "base/ids.h"
#include "base/status.h"
#include "service/controller/log/notification_feed.h"
#include "service/controller/view/recent_runs.h"
#include "story/run_record.h"

namespace longhaul::service {

class StoryCache {
 public:
  static constexpr size_t kMostRuns = 16;  // the least recently viewed one is dropped

  // Requires that `feed` outlives this.
  explicit StoryCache(NotificationFeed& feed) : feed_(feed) {}

  // Returns what the log has about the job. Where the log cannot be read, what was read before, and
  // a note with the reason.
  story::RunRecord Of(const JobId& job);

 private:
  struct Entry {
    explicit Entry(const JobId& job) : recorder(job.value()) {}

    std::mutex mutex;  // guards all below
    story::RunRecorder recorder;
    uint64_t notification = 0;  // the id of the last one that was taken
    uint64_t event = 0;         // the sequence of the last one; 0: none
  };
  Status Continue(const JobId& job, Entry& entry);

  NotificationFeed& feed_;
  RecentRuns<Entry> runs_{kMostRuns};
};

}  // namespace longhaul::service
