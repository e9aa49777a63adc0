#include "service/controller/view/history_cache.h"

#include <memory>

namespace longhaul::service {
namespace {

// Between two batches, others may read the log.
constexpr size_t kLogBatch = 1024;

}  // namespace

Result<HistoryCache::Snapshot> HistoryCache::Of(const JobId& job) {
  const std::shared_ptr<Entry> entry = runs_.Of(job);
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
