// The event log: every event that the controller took, in order, and the notifications that
// followed.
//
// By default one SQLite file (write-ahead log, synchronous=FULL: what Append has returned for
// survives a power failure), which a second process can't open (flock on FILE.lock). Controllers
// that stand by for each other share a PostgreSQL database instead. docs/event-log.md has the
// schema. Events are proto::Event, so `longhaul simulate --log` can replay a file elsewhere.
//
// Only one thread may call Append and Replay; the other methods are thread-safe.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/ids.h"
#include "base/status.h"
#include "base/time.h"
#include "base/units.h"
#include "proto/events.pb.h"
#include "proto/status.pb.h"

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

struct LoggedEvent {
  uint64_t sequence = 0;
  Instant now;
  proto::Event event;
};

constexpr uint64_t kNotificationsPerEvent = 1000;  // for one event; further ones are dropped

// Where the controller's events are kept. Implementations: the SQLite file of Open, and
// standby/postgres_log.h.
class EventLog {
 public:
  // Opens or creates the SQLite file, with mode 0600 also for an existing file. Returns kDataLoss
  // for a damaged file or one that isn't an event log, kAlreadyExists when another process has it
  // open, and kFailedPrecondition for a newer format.
  static Result<std::unique_ptr<EventLog>> Open(const std::string& path);
  virtual ~EventLog() = default;
  EventLog(const EventLog&) = delete;
  EventLog& operator=(const EventLog&) = delete;

  // Appends all entries durably or, on failure, none (kResourceExhausted: the disk is full;
  // kAborted: another controller leads, and this one must end). The first one's sequence is
  // last_sequence() + 1. A batch that failed must be appended again before another one.
  virtual Status Append(std::span<const LogEntry> batch) = 0;

  using TakeEvent = std::function<Status(uint64_t sequence, Instant now, const proto::Event&)>;
  // Calls `take` with each event after the sequence `after`, until it fails. Returns kDataLoss when
  // an event is missing or can't be read. last_sequence() includes what it read.
  virtual Status ReplayAfter(uint64_t after, const TakeEvent& take) = 0;
  // The same from the first event on.
  Status Replay(const TakeEvent& take) { return ReplayAfter(0, take); }

  // Returns the notifications after an id, oldest first, at most `limit`; of one job unless `job`
  // is empty.
  virtual Result<std::vector<LoggedNotification>> Notifications(uint64_t after, const JobId& job,
                                                                size_t limit) = 0;

  // Returns the events after a sequence, oldest first, at most `limit`. For those who read the past
  // while the controller runs; gaps are not noticed.
  virtual Result<std::vector<LoggedEvent>> EventsAfter(uint64_t after, size_t limit) = 0;

  // From the next Append on, the file may not grow beyond this size, as if the disk were full (it
  // isn't made smaller). Any thread. Only the SQLite file has a limit.
  virtual void LimitSize(Bytes) {}

  uint64_t last_sequence() const { return last_sequence_; }
  // The time of the last event, or the Unix epoch if there is none.
  Instant last_instant() const { return last_instant_; }

 protected:
  EventLog() = default;
  void SetLast(uint64_t sequence, Instant now) {
    last_sequence_ = sequence;
    last_instant_ = now;
  }

 private:
  uint64_t last_sequence_ = 0;
  Instant last_instant_;
};

// The name of the notification's field: the column `kind`.
std::string NotificationKind(const proto::Notification& notification);

}  // namespace longhaul::service
