#include "service/controller/view/story_cache.h"

#include <memory>

namespace longhaul::service {
namespace {

// Between two batches, others may read the log.
constexpr size_t kStoryBatch = 1024;

}  // namespace

// An event is logged with its notifications, so the events that are read second are never behind.
Status StoryCache::Continue(const JobId& job, Entry& entry) {
  for (bool more = true; more;) {
    ASSIGN_OR_RETURN(const auto logged, feed_.Logged(entry.notification, job, kStoryBatch));
    for (const LoggedNotification& each : logged) {
      // Events before the job's first notification are not about it.
      if (entry.event == 0) entry.event = each.id / kNotificationsPerEvent - 1;
      entry.recorder.TakeNotification(each.notification);
      entry.notification = each.id;
    }
    more = logged.size() == kStoryBatch;
  }
  if (entry.notification == 0) return {};
  for (bool more = true; more;) {
    ASSIGN_OR_RETURN(const auto logged, feed_.LoggedEvents(entry.event, kStoryBatch));
    for (const LoggedEvent& each : logged) {
      entry.recorder.TakeEvent(ToNanoseconds(each.now), each.event);
      entry.event = each.sequence;
    }
    more = logged.size() == kStoryBatch;
  }
  return {};
}

story::RunRecord StoryCache::Of(const JobId& job) {
  const std::shared_ptr<Entry> entry = runs_.Of(job);
  const std::lock_guard lock(entry->mutex);
  const Status read = Continue(job, *entry);
  story::RunRecord record = entry->recorder.Record();
  if (!read.ok()) {
    record.notes.push_back(
        "The event log could not be read further, so newer entries are missing (" + read.message() +
        ").");
  }
  return record;
}

}  // namespace longhaul::service
