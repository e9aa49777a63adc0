#include "service/controller/log/event_log.h"

#include <fcntl.h>
#include <sqlite3.h>
#include <sys/file.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstdint>
#include <initializer_list>
#include <mutex>
#include <utility>

#include "io/fd.h"
#include "io/files/private_files.h"
#include "io/log/log.h"

namespace longhaul::service {
namespace {

constexpr int kApplicationId = 0x4c484c47;  // "LHLG", in the file's header
constexpr int kSchemaVersion = 2;
constexpr int64_t kMostPages = 4294967294;  // SQLite's own limit

constexpr const char* kSchema = R"(
CREATE TABLE meta(key TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID;
CREATE TABLE events(sequence INTEGER PRIMARY KEY, now_ns INTEGER NOT NULL, event BLOB NOT NULL);
CREATE TABLE notifications(id INTEGER PRIMARY KEY, job_id TEXT NOT NULL, kind TEXT NOT NULL,
                     notification BLOB NOT NULL);
CREATE INDEX notifications_by_job ON notifications(job_id, id);
INSERT INTO meta VALUES('format', 'longhaul event log');
)";

// Version 1 had these names.
constexpr const char* kMigrateFromVersion1 = R"(
BEGIN IMMEDIATE;
ALTER TABLE licences RENAME TO notifications;
ALTER TABLE notifications RENAME COLUMN notice TO notification;
UPDATE notifications SET kind = 'attempt' WHERE kind = 'epoch';
PRAGMA user_version = 2;
COMMIT;
)";

// The log holds the environment of jobs, with whatever secrets are in it. SQLite gives the files
// beside the database the database's mode, but only when it makes them.
Status MakePrivate(const std::string& path) {
  const io::Fd made(::open(path.c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600));
  if (!made.valid() && errno != EEXIST)
    return FromErrno(errno, "cannot create the event log " + path);
  for (const char* suffix : {"", "-wal", "-shm"}) {
    ASSIGN_OR_RETURN(const bool open_before, io::TightenFile(path + suffix));
    if (open_before) {
      io::LogWarning("controller",
                     "other users could read " + path + suffix + "; its mode is 0600 from now on");
    }
  }
  return Status();
}

class SqliteLog final : public EventLog {
 public:
  SqliteLog(std::string path, io::Fd lock);
  ~SqliteLog() override;
  Status Prepare();

  Status Append(std::span<const LogEntry> batch) override;
  Status ReplayAfter(uint64_t after, const TakeEvent& take) override;
  Result<std::vector<LoggedNotification>> Notifications(uint64_t after, const JobId& job,
                                                        size_t limit) override;
  Result<std::vector<LoggedEvent>> EventsAfter(uint64_t after, size_t limit) override;
  void LimitSize(Bytes size) override { size_limit_ = size.count(); }

 private:
  class Database;
  Status ApplySizeLimit();
  Status RollBack();
  Status Insert(const LogEntry& entry, uint64_t sequence);

  std::string path_;
  io::Fd lock_;
  std::unique_ptr<Database> writer_;
  std::atomic<int64_t> size_limit_ = INT64_MAX;
  int64_t applied_size_limit_ = INT64_MAX;

  std::mutex reader_mutex_;  // guards reader_
  std::unique_ptr<Database> reader_;
};

// One connection with its prepared statements.
class SqliteLog::Database {
 public:
  // NOMUTEX: each connection is used by one thread at a time. The loop's thread has the writer; a
  // mutex guards the reader.
  static Result<std::unique_ptr<Database>> Open(const std::string& path, int flags) {
    sqlite3* handle = nullptr;
    const int code = sqlite3_open_v2(path.c_str(), &handle, flags | SQLITE_OPEN_NOMUTEX, nullptr);
    std::unique_ptr<Database> database(new Database(handle, path));
    if (code != SQLITE_OK) return database->Error("cannot open");
    sqlite3_extended_result_codes(handle, 1);
    sqlite3_busy_timeout(handle, 5000);
    return database;
  }

  ~Database() {
    for (sqlite3_stmt* statement : statements_) sqlite3_finalize(statement);
    sqlite3_close(handle_);
  }

  Status Execute(const char* sql) {
    if (sqlite3_exec(handle_, sql, nullptr, nullptr, nullptr) == SQLITE_OK) return Status();
    return Error("cannot use");
  }

  // Lives as long as this.
  Result<sqlite3_stmt*> Prepare(const char* sql) {
    sqlite3_stmt* statement = nullptr;
    if (sqlite3_prepare_v2(handle_, sql, -1, &statement, nullptr) != SQLITE_OK) {
      return Error("cannot use");
    }
    statements_.push_back(statement);
    return statement;
  }

  // The single number that a query gives; 0 for none.
  Result<int64_t> Number(const char* sql) {
    ASSIGN_OR_RETURN(sqlite3_stmt* const statement, Prepare(sql));
    const int code = sqlite3_step(statement);
    if (code != SQLITE_ROW && code != SQLITE_DONE) return Error("cannot read");
    const int64_t number = code == SQLITE_ROW ? sqlite3_column_int64(statement, 0) : 0;
    sqlite3_reset(statement);
    return number;
  }

  // The low byte is the primary result code; the rest refines it. The codes decide whether the
  // caller repeats the write (a full disk) or gives up (damage).
  Status Error(const std::string& what) const {
    const int code = handle_ == nullptr ? SQLITE_NOMEM : sqlite3_extended_errcode(handle_);
    const std::string message =
        what + " the event log " + path_ + ": " +
        (handle_ == nullptr ? std::string("out of memory") : std::string(sqlite3_errmsg(handle_)));
    switch (code & 0xff) {
      case SQLITE_FULL:
        return ResourceExhausted(message + " (free some space)");
      case SQLITE_NOTADB:
      case SQLITE_CORRUPT:
        return DataLoss(message +
                        " (it is damaged or not an event log; move it away to start anew)");
      case SQLITE_PERM:
      case SQLITE_READONLY:
      case SQLITE_CANTOPEN:
        return PermissionDenied(message);
      case SQLITE_IOERR:
      case SQLITE_BUSY:
        return Unavailable(message);
      default:
        return InternalError(message);
    }
  }

  sqlite3* handle() const { return handle_; }

  sqlite3_stmt* insert_event = nullptr;
  sqlite3_stmt* insert_notification = nullptr;
  sqlite3_stmt* select_all = nullptr;
  sqlite3_stmt* select_job = nullptr;
  sqlite3_stmt* select_events = nullptr;

 private:
  Database(sqlite3* handle, std::string path) : handle_(handle), path_(std::move(path)) {}

  sqlite3* handle_;
  std::string path_;
  std::vector<sqlite3_stmt*> statements_;
};

SqliteLog::SqliteLog(std::string path, io::Fd lock)
    : path_(std::move(path)), lock_(std::move(lock)) {}
SqliteLog::~SqliteLog() = default;

Status SqliteLog::Prepare() {
  ASSIGN_OR_RETURN(writer_, Database::Open(path_, SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE));
  // FULL: with WAL, NORMAL would lose the newest commits in a loss of power, and commands that
  // followed from them have been sent.
  RETURN_IF_ERROR(writer_->Execute("PRAGMA journal_mode=WAL; PRAGMA synchronous=FULL;"));
  ASSIGN_OR_RETURN(const int64_t application, writer_->Number("PRAGMA application_id"));
  ASSIGN_OR_RETURN(const int64_t version, writer_->Number("PRAGMA user_version"));
  ASSIGN_OR_RETURN(const int64_t tables, writer_->Number("SELECT count(*) FROM sqlite_master"));
  if (tables == 0) {
    const std::string pragmas = "PRAGMA application_id=" + std::to_string(kApplicationId) +
                                "; PRAGMA user_version=" + std::to_string(kSchemaVersion) + ";";
    const std::string make = "BEGIN IMMEDIATE;" + std::string(kSchema) + pragmas + "COMMIT;";
    RETURN_IF_ERROR(writer_->Execute(make.c_str()));
  } else if (application != kApplicationId) {
    return DataLoss(path_ +
                    " is a database, but not an event log: move it away to start a new one");
  } else if (version == 1) {
    RETURN_IF_ERROR(writer_->Execute(kMigrateFromVersion1));
  } else if (version != kSchemaVersion) {
    return FailedPrecondition("the event log " + path_ + " has format " + std::to_string(version) +
                              ", this program reads " + std::to_string(kSchemaVersion));
  }
  // Damage is reported at the start and not in the middle of a replay.
  ASSIGN_OR_RETURN(sqlite3_stmt* const check, writer_->Prepare("PRAGMA quick_check(1)"));
  if (sqlite3_step(check) != SQLITE_ROW) return writer_->Error("cannot check");
  const std::string verdict = reinterpret_cast<const char*>(sqlite3_column_text(check, 0));
  sqlite3_reset(check);
  if (verdict != "ok") {
    return DataLoss("the event log " + path_ + " is damaged (" + verdict +
                    "): move it away to start anew");
  }
  ASSIGN_OR_RETURN(const int64_t last, writer_->Number("SELECT max(sequence) FROM events"));
  ASSIGN_OR_RETURN(const int64_t at,
                   writer_->Number("SELECT now_ns FROM events ORDER BY sequence DESC LIMIT 1"));
  SetLast(static_cast<uint64_t>(last), InstantFromNanoseconds(at));
  ASSIGN_OR_RETURN(writer_->insert_event, writer_->Prepare("INSERT INTO events VALUES(?,?,?)"));
  ASSIGN_OR_RETURN(writer_->insert_notification,
                   writer_->Prepare("INSERT INTO notifications VALUES(?,?,?,?)"));
  ASSIGN_OR_RETURN(reader_, Database::Open(path_, SQLITE_OPEN_READONLY));
  ASSIGN_OR_RETURN(reader_->select_all,
                   reader_->Prepare("SELECT id, notification FROM notifications WHERE id>?1 "
                                    "ORDER BY id LIMIT ?2"));
  ASSIGN_OR_RETURN(
      reader_->select_job,
      reader_->Prepare("SELECT id, notification FROM notifications WHERE job_id=?3 AND id>?1 "
                       "ORDER BY id LIMIT ?2"));
  ASSIGN_OR_RETURN(reader_->select_events,
                   reader_->Prepare("SELECT sequence, now_ns, event FROM events WHERE sequence>?1 "
                                    "ORDER BY sequence LIMIT ?2"));
  return Status();
}

Status SqliteLog::Insert(const LogEntry& entry, uint64_t sequence) {
  // SQLITE_STATIC: SQLite does not copy `bytes`, which stays unchanged until the step is done.
  std::string bytes = entry.event.SerializeAsString();
  sqlite3_stmt* event = writer_->insert_event;
  sqlite3_bind_int64(event, 1, static_cast<int64_t>(sequence));
  sqlite3_bind_int64(event, 2, ToNanoseconds(entry.now));
  sqlite3_bind_blob64(event, 3, bytes.data(), bytes.size(), SQLITE_STATIC);
  const int code = sqlite3_step(event);
  sqlite3_reset(event);
  if (code != SQLITE_DONE) return writer_->Error("cannot write");
  const size_t notifications = std::min<size_t>(entry.notifications.size(), kNotificationsPerEvent);
  for (size_t i = 0; i < notifications; ++i) {
    const proto::Notification& notification = entry.notifications[i];
    bytes = notification.SerializeAsString();
    const std::string kind = NotificationKind(notification);
    sqlite3_stmt* row = writer_->insert_notification;
    sqlite3_bind_int64(row, 1, static_cast<int64_t>(sequence * kNotificationsPerEvent + i));
    sqlite3_bind_text(row, 2, notification.job_id().c_str(), -1, SQLITE_STATIC);
    sqlite3_bind_text(row, 3, kind.c_str(), -1, SQLITE_STATIC);
    sqlite3_bind_blob64(row, 4, bytes.data(), bytes.size(), SQLITE_STATIC);
    const int row_code = sqlite3_step(row);
    sqlite3_reset(row);
    if (row_code != SQLITE_DONE) return writer_->Error("cannot write");
  }
  return Status();
}

// Ends a transaction that has failed. Some errors have done so already.
Status SqliteLog::RollBack() {
  if (sqlite3_get_autocommit(writer_->handle()) != 0) return Status();
  return writer_->Execute("ROLLBACK");
}

Status SqliteLog::ApplySizeLimit() {
  const int64_t limit = size_limit_;
  if (limit == applied_size_limit_) return Status();
  ASSIGN_OR_RETURN(const int64_t page, writer_->Number("PRAGMA page_size"));
  const int64_t pages = std::clamp<int64_t>(limit / page, 1, kMostPages);
  RETURN_IF_ERROR(writer_->Execute(("PRAGMA max_page_count=" + std::to_string(pages)).c_str()));
  applied_size_limit_ = limit;
  return Status();
}

// One transaction for the batch, so one sync to the disk. All of it or nothing is in the log after
// a crash.
Status SqliteLog::Append(std::span<const LogEntry> batch) {
  if (batch.empty()) return Status();
  RETURN_IF_ERROR(RollBack());
  RETURN_IF_ERROR(ApplySizeLimit());
  RETURN_IF_ERROR(writer_->Execute("BEGIN IMMEDIATE"));
  Status status;
  uint64_t sequence = last_sequence();
  for (const LogEntry& entry : batch) {
    status = Insert(entry, ++sequence);
    if (!status.ok()) break;
  }
  if (status.ok()) status = writer_->Execute("COMMIT");
  if (!status.ok()) {
    (void)!RollBack().ok();  // a disk that refuses this as well is asked again by the next Append
    return status;
  }
  SetLast(sequence, batch.back().now);
  return Status();
}

Status SqliteLog::ReplayAfter(uint64_t after, const TakeEvent& take) {
  ASSIGN_OR_RETURN(sqlite3_stmt* const rows,
                   writer_->Prepare("SELECT sequence, now_ns, event FROM events WHERE sequence>?1 "
                                    "ORDER BY sequence"));
  sqlite3_bind_int64(rows, 1, static_cast<int64_t>(after));
  uint64_t expected = after + 1;
  proto::Event event;
  int code = SQLITE_ROW;
  while ((code = sqlite3_step(rows)) == SQLITE_ROW) {
    const auto sequence = static_cast<uint64_t>(sqlite3_column_int64(rows, 0));
    const bool parsed =
        event.ParseFromArray(sqlite3_column_blob(rows, 2), sqlite3_column_bytes(rows, 2));
    // A gap means that rows were removed: continuing would give a state that never existed.
    if (sequence != expected || !parsed) {
      sqlite3_reset(rows);
      return DataLoss("event " + std::to_string(expected) + " of the event log " + path_ +
                      (sequence != expected ? " is missing" : " cannot be read"));
    }
    const Status taken =
        take(sequence, InstantFromNanoseconds(sqlite3_column_int64(rows, 1)), event);
    if (!taken.ok()) {
      sqlite3_reset(rows);
      return taken;
    }
    ++expected;
  }
  const Status status = code == SQLITE_DONE ? Status() : writer_->Error("cannot read");
  sqlite3_reset(rows);
  return status;
}

Result<std::vector<LoggedNotification>> SqliteLog::Notifications(uint64_t after, const JobId& job,
                                                                 size_t limit) {
  std::lock_guard lock(reader_mutex_);
  sqlite3_stmt* rows = job.empty() ? reader_->select_all : reader_->select_job;
  sqlite3_bind_int64(rows, 1, static_cast<int64_t>(std::min<uint64_t>(after, INT64_MAX)));
  sqlite3_bind_int64(rows, 2, static_cast<int64_t>(limit));
  if (!job.empty()) sqlite3_bind_text(rows, 3, job.value().c_str(), -1, SQLITE_STATIC);
  std::vector<LoggedNotification> notifications;
  int code = SQLITE_ROW;
  while ((code = sqlite3_step(rows)) == SQLITE_ROW) {
    LoggedNotification& notification = notifications.emplace_back();
    notification.id = static_cast<uint64_t>(sqlite3_column_int64(rows, 0));
    if (!notification.notification.ParseFromArray(sqlite3_column_blob(rows, 1),
                                                  sqlite3_column_bytes(rows, 1))) {
      sqlite3_reset(rows);
      return DataLoss("notification " + std::to_string(notification.id) + " of the event log " +
                      path_ + " cannot be read");
    }
  }
  const Status status = code == SQLITE_DONE ? Status() : reader_->Error("cannot read");
  sqlite3_reset(rows);
  if (!status.ok()) return status;
  return notifications;
}

Result<std::vector<LoggedEvent>> SqliteLog::EventsAfter(uint64_t after, size_t limit) {
  std::lock_guard lock(reader_mutex_);
  sqlite3_stmt* rows = reader_->select_events;
  sqlite3_bind_int64(rows, 1, static_cast<int64_t>(std::min<uint64_t>(after, INT64_MAX)));
  sqlite3_bind_int64(rows, 2, static_cast<int64_t>(limit));
  std::vector<LoggedEvent> events;
  int code = SQLITE_ROW;
  while ((code = sqlite3_step(rows)) == SQLITE_ROW) {
    LoggedEvent& each = events.emplace_back();
    each.sequence = static_cast<uint64_t>(sqlite3_column_int64(rows, 0));
    each.now = InstantFromNanoseconds(sqlite3_column_int64(rows, 1));
    if (!each.event.ParseFromArray(sqlite3_column_blob(rows, 2), sqlite3_column_bytes(rows, 2))) {
      sqlite3_reset(rows);
      return DataLoss("event " + std::to_string(each.sequence) + " of the event log " + path_ +
                      " cannot be read");
    }
  }
  const Status status = code == SQLITE_DONE ? Status() : reader_->Error("cannot read");
  sqlite3_reset(rows);
  if (!status.ok()) return status;
  return events;
}

}  // namespace

Result<std::unique_ptr<EventLog>> EventLog::Open(const std::string& path) {
  const std::string lock_path = path + ".lock";
  // A file of its own carries the lock, because closing any descriptor of the database would drop
  // SQLite's own locks on it. The kernel releases it when the process dies.
  io::Fd lock(::open(lock_path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600));
  if (!lock.valid()) return FromErrno(errno, "cannot open " + lock_path);
  if (::flock(lock.get(), LOCK_EX | LOCK_NB) != 0) {
    if (errno != EWOULDBLOCK) return FromErrno(errno, "cannot lock " + lock_path);
    return AlreadyExists("another controller uses the event log " + path +
                         ": stop it, or choose another state directory");
  }
  RETURN_IF_ERROR(MakePrivate(path));
  auto log = std::make_unique<SqliteLog>(path, std::move(lock));
  RETURN_IF_ERROR(log->Prepare());
  return std::unique_ptr<EventLog>(std::move(log));
}

std::string NotificationKind(const proto::Notification& notification) {
  const auto* descriptor =
      proto::Notification::descriptor()->FindFieldByNumber(notification.kind_case());
  return descriptor == nullptr ? "none" : descriptor->name();
}

}  // namespace longhaul::service
