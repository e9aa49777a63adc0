#include "service/controller/view/history_cache.h"

#include <algorithm>

namespace longhaul::service {
namespace {

// Between two batches, others may read the log.
constexpr size_t kLogBatch = 1024;

}  // namespace

std::shared_ptr<HistoryCache::Entry> HistoryCache::EntryOf(const JobId& job) {
  const std::lock_guard lock(mutex_);
  const auto found = std::find_if(entries_.begin(), entries_.end(),
                                  [&](const auto& entry) { return entry.first == job; });
  if (found != entries_.end()) {
    entries_.splice(entries_.begin(), entries_, found);
  } else {
    entries_.emplace_front(job, std::make_shared<Entry>());
    if (entries_.size() > kMostRuns) entries_.pop_back();
  }
  return entries_.front().second;
}

Result<HistoryCache::Snapshot> HistoryCache::Of(const JobId& job) {
  const std::shared_ptr<Entry> entry = EntryOf(job);
  const std::lock_guard lock(entry->mutex);
  for (bool more = true; more;) {
    ASSIGN_OR_RETURN(const auto logged, feed_.Logged(entry->as_of, job, kLogBatch));
    for (const LoggedNotification& each : logged) {
      entry->history.Take(each.notification);
      entry->as_of = each.id;
    }
    more = logged.size() == kLogBatch;
  }
  return Snapshot{entry->history, entry->as_of};
}

}  // namespace longhaul::service
