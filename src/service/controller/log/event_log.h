// The controller's memory: every event it took, in order, and what it told people.
//
// One SQLite file (write-ahead log, synchronous=FULL: what Append has returned for survives a power
// cut). docs/event-log.md has the schema. Events are proto::Event, so `longhaul simulate --log` can
// replay a file on a desk. A second process can't open the same log (flock on FILE.lock).
//
// Append and Replay belong to one thread; the rest may be called from any.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <vector>

#include "base/ids.h"
#include "base/status.h"
#include "base/time.h"
#include "base/units.h"
#include "io/fd.h"
#include "proto/events.pb.h"
#include "proto/status.pb.h"

struct sqlite3;
struct sqlite3_stmt;

namespace longhaul::service {

// One event and what the core answered with.
struct LogEntry {
  Instant now;
  proto::Event event;
  std::vector<proto::Notification> notifications;
};

struct LoggedNotification {
  uint64_t id = 0;  // kNotificationsPerEvent * sequence of the event + index
  proto::Notification notification;
};

constexpr uint64_t kNotificationsPerEvent = 1000;  // an event's further ones are dropped

class EventLog {
 public:
  // Opens or makes it, for its user alone (mode 0600, also one that was not). kDataLoss for a
  // damaged file or one that isn't an event log, kAlreadyExists when another process has it open,
  // kFailedPrecondition for a newer format.
  static Result<std::unique_ptr<EventLog>> Open(const std::string& path);
  ~EventLog();
  EventLog(const EventLog&) = delete;
  EventLog& operator=(const EventLog&) = delete;

  // Takes all of them or, on failure, none (kResourceExhausted: the disk is full), durably. The
  // first one's sequence is last_sequence() + 1.
  Status Append(std::span<const LogEntry> batch);

  // Calls `take` with each event from the first on, until it fails. kDataLoss when one is missing
  // or can't be read.
  Status Replay(
      const std::function<Status(uint64_t sequence, Instant now, const proto::Event&)>& take);

  // The notifications after an id, oldest first, at most `limit`; of one job unless `job` is empty.
  Result<std::vector<LoggedNotification>> Notifications(uint64_t after, const JobId& job,
                                                        size_t limit);

  // From the next Append on, the file may not grow beyond so many bytes (nor is it made smaller):
  // further ones find the disk full. Any thread.
  void LimitSize(Bytes size) { size_limit_ = size.count(); }

  uint64_t last_sequence() const { return last_sequence_; }
  // When the last event was taken; the attempt's start without one.
  Instant last_instant() const { return last_instant_; }

 private:
  class Database;
  EventLog(std::string path, io::Fd lock);

  Status Prepare();
  Status ApplySizeLimit();
  Status RollBack();
  Status Insert(const LogEntry& entry, uint64_t sequence);

  std::string path_;
  io::Fd lock_;
  std::unique_ptr<Database> writer_;
  std::atomic<int64_t> size_limit_ = INT64_MAX;
  int64_t applied_size_limit_ = INT64_MAX;
  uint64_t last_sequence_ = 0;
  Instant last_instant_;

  std::mutex reader_mutex_;  // guards reader_
  std::unique_ptr<Database> reader_;
};

}  // namespace longhaul::service
