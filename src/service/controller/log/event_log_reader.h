// Reads an event log without changing it, also while a controller uses it: for `longhaul explain`.
//
// Unlike EventLog it takes no lock, migrates nothing and reads what a damaged log still has. Not
// thread-safe.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "base/status.h"
#include "base/time.h"
#include "proto/events.pb.h"
#include "proto/status.pb.h"

namespace longhaul::service {

class EventLogReader {
 public:
  // Returns kNotFound when there is no file, kDataLoss for a file that is not an event log, and
  // kFailedPrecondition for a newer format.
  static Result<std::unique_ptr<EventLogReader>> Open(const std::string& path);
  ~EventLogReader();
  EventLogReader(const EventLogReader&) = delete;
  EventLogReader& operator=(const EventLogReader&) = delete;

  // The ids of the jobs that have notifications, by their first one.
  Result<std::vector<std::string>> Jobs();

  // Call `take` with each event or notification in order. Rows that cannot be read are skipped and
  // counted. An error ends the reading; what was taken before is valid.
  Status Events(const std::function<void(Instant now, const proto::Event&)>& take);
  Status Notifications(const std::function<void(const proto::Notification&)>& take);

  uint64_t unreadable_rows() const { return unreadable_rows_; }

 private:
  class Connection;
  explicit EventLogReader(std::unique_ptr<Connection> connection);

  std::unique_ptr<Connection> connection_;
  uint64_t unreadable_rows_ = 0;
};

}  // namespace longhaul::service
