// A stream of server-sent events: one watcher's place in the feed.
//
// For the page (EventStream::view) it sends "alive" while nothing happens, because scripts do not
// see comments, and "reset" instead of a long backlog: the page then requests a view, which has all
// that was skipped.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>

#include "base/time.h"
#include "io/clock.h"
#include "service/controller/log/notification_feed.h"
#include "service/controller/rest/api_response.h"
#include "service/http/http_server.h"

namespace longhaul::service {

class EventWatcher : public HttpStream {
 public:
  // A comment, so that dead connections are found.
  static constexpr Duration kKeepAlive = std::chrono::seconds(15);
  // The page reports an older picture as stale after 15 s.
  static constexpr Duration kAlive = std::chrono::seconds(5);
  // A page that is further behind is served faster by a new view. About 256 KiB of steps.
  static constexpr size_t kLongestViewBacklog = 1024;

  // Requires that `open` counts this one already; it no longer does after the destruction. Tests
  // pass a clock of their own.
  EventWatcher(NotificationFeed& feed, const EventStream& stream,
               std::shared_ptr<std::atomic<uint64_t>> open,
               std::function<Instant()> now = io::MonotonicNow);
  ~EventWatcher() override;

  // Returns what is new and does not block: the server calls it again after WakeStreams().
  Part Next() override;

 private:
  Part Reset();
  void ReportAlive(Part& part);

  NotificationFeed& feed_;
  const EventStream stream_;
  uint64_t through_;
  const std::function<Instant()> now_;
  Instant written_;
  const std::shared_ptr<std::atomic<uint64_t>> open_;
};

}  // namespace longhaul::service
