// The event log: every event that the controller took, in order, and the notifications that
// followed.
//
// One SQLite file (write-ahead log, synchronous=FULL: what Append has returned for survives a power
// failure). docs/event-log.md has the schema. Events are proto::Event, so `longhaul simulate --log`
// can replay a file elsewhere. A second process can't open the same log (flock on FILE.lock).
//
// Only one thread may call Append and Replay; the other methods are thread-safe.
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

// One event, and the core's notifications for it.
struct LogEntry {
  Instant now;
  proto::Event event;
  std::vector<proto::Notification> notifications;
};

struct LoggedNotification {
  uint64_t id = 0;  // kNotificationsPerEvent * sequence of the event + index
  proto::Notification notification;
};

constexpr uint64_t kNotificationsPerEvent = 1000;  // for one event; further ones are dropped

class EventLog {
 public:
  // Opens or creates the log, with mode 0600 also for an existing file. Returns kDataLoss for a
  // damaged file or one that isn't an event log, kAlreadyExists when another process has it open,
  // and kFailedPrecondition for a newer format.
  static Result<std::unique_ptr<EventLog>> Open(const std::string& path);
  ~EventLog();
  EventLog(const EventLog&) = delete;
  EventLog& operator=(const EventLog&) = delete;

  // Appends all entries durably or, on failure, none (kResourceExhausted: the disk is full). The
  // first one's sequence is last_sequence() + 1.
  Status Append(std::span<const LogEntry> batch);

  // Calls `take` with each event from the first on, until it fails. Returns kDataLoss when an event
  // is missing or can't be read.
  Status Replay(
      const std::function<Status(uint64_t sequence, Instant now, const proto::Event&)>& take);

  // Returns the notifications after an id, oldest first, at most `limit`; of one job unless `job`
  // is empty.
  Result<std::vector<LoggedNotification>> Notifications(uint64_t after, const JobId& job,
                                                        size_t limit);

  // From the next Append on, the file may not grow beyond this size, as if the disk were full (it
  // isn't made smaller). Any thread.
  void LimitSize(Bytes size) { size_limit_ = size.count(); }

  uint64_t last_sequence() const { return last_sequence_; }
  // The time of the last event, or the Unix epoch if there is none.
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
