// What is kept for the runs that were viewed most recently, one entry for each run.
//
// Thread-safe. An entry is shared with the requests that read it now, so it guards its own content
// and outlives its removal from here.
#pragma once

#include <algorithm>
#include <cstddef>
#include <list>
#include <memory>
#include <mutex>
#include <utility>

#include "base/ids.h"

namespace longhaul::service {

// Entry has a constructor that takes the job.
template <typename Entry>
class RecentRuns {
 public:
  // Requires most >= 1.
  explicit RecentRuns(size_t most) : most_(most) {}

  // Returns the entry of the job, which is now the most recently viewed one. Makes it, and drops
  // the least recently viewed one if there are more than `most`.
  std::shared_ptr<Entry> Of(const JobId& job) {
    const std::lock_guard lock(mutex_);
    const auto found = std::find_if(entries_.begin(), entries_.end(),
                                    [&](const auto& entry) { return entry.first == job; });
    if (found != entries_.end()) {
      entries_.splice(entries_.begin(), entries_, found);
    } else {
      entries_.emplace_front(job, std::make_shared<Entry>(job));
      if (entries_.size() > most_) entries_.pop_back();
    }
    return entries_.front().second;
  }

 private:
  const size_t most_;
  std::mutex mutex_;                                             // guards entries_
  std::list<std::pair<JobId, std::shared_ptr<Entry>>> entries_;  // the most recent one first
};

}  // namespace longhaul::service
