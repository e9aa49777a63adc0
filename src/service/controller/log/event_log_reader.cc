#include "service/controller/log/event_log_reader.h"

#include <sqlite3.h>
#include <unistd.h>

#include <utility>

namespace longhaul::service {
namespace {

constexpr int64_t kLogApplicationId = 0x4c484c47;  // as in event_log.cc
constexpr int64_t kNewestFormat = 2;
constexpr int kBusyTimeout_ms = 5000;

// A path as a URI of SQLite.
std::string UriOf(const std::string& path, const char* query) {
  constexpr char kHex[] = "0123456789ABCDEF";
  std::string uri = "file:";
  for (const char c : path) {
    if (c == '?' || c == '#' || c == '%') {
      const auto byte = static_cast<unsigned char>(c);
      uri += {'%', kHex[byte >> 4], kHex[byte & 15]};
    } else {
      uri += c;
    }
  }
  return uri + query;
}

}  // namespace

class EventLogReader::Connection {
 public:
  explicit Connection(std::string path) : path_(std::move(path)) {}
  ~Connection() { sqlite3_close(handle_); }
  Connection(const Connection&) = delete;
  Connection& operator=(const Connection&) = delete;

  // Where no controller has left a write-ahead log the file is complete and nobody writes it, so
  // that it can be read without making files beside it.
  Status Open() {
    const bool at_rest = ::access((path_ + "-wal").c_str(), F_OK) != 0;
    const std::string uri = UriOf(path_, at_rest ? "?immutable=1" : "?mode=ro");
    constexpr int kFlags = SQLITE_OPEN_READONLY | SQLITE_OPEN_URI | SQLITE_OPEN_NOMUTEX;
    if (sqlite3_open_v2(uri.c_str(), &handle_, kFlags, nullptr) != SQLITE_OK) return Error();
    sqlite3_busy_timeout(handle_, kBusyTimeout_ms);
    return Status();
  }

  // Calls `take` with each row.
  Status Rows(const std::string& sql, const std::function<void(sqlite3_stmt*)>& take) {
    sqlite3_stmt* rows = nullptr;
    if (sqlite3_prepare_v2(handle_, sql.c_str(), -1, &rows, nullptr) != SQLITE_OK) return Error();
    int code = SQLITE_ROW;
    while ((code = sqlite3_step(rows)) == SQLITE_ROW) take(rows);
    const Status status = code == SQLITE_DONE ? Status() : Error();
    sqlite3_finalize(rows);
    return status;
  }

  Result<int64_t> Number(const std::string& sql) {
    int64_t number = 0;
    RETURN_IF_ERROR(
        Rows(sql, [&number](sqlite3_stmt* row) { number = sqlite3_column_int64(row, 0); }));
    return number;
  }

  Status Error() const {
    const std::string message =
        "cannot read the event log " + path_ + ": " +
        (handle_ == nullptr ? std::string("out of memory") : std::string(sqlite3_errmsg(handle_)));
    const int code = handle_ == nullptr ? SQLITE_NOMEM : sqlite3_errcode(handle_);
    if (code == SQLITE_NOTADB || code == SQLITE_CORRUPT) return DataLoss(message);
    return code == SQLITE_CANTOPEN || code == SQLITE_PERM ? PermissionDenied(message)
                                                          : Unavailable(message);
  }

  const std::string& path() const { return path_; }
  // Version 1 had another name for notifications.
  const char* notifications() const { return format_ == 1 ? "licences" : "notifications"; }
  const char* notification() const { return format_ == 1 ? "notice" : "notification"; }
  void set_format(int64_t format) { format_ = format; }

 private:
  const std::string path_;
  sqlite3* handle_ = nullptr;
  int64_t format_ = kNewestFormat;
};

EventLogReader::EventLogReader(std::unique_ptr<Connection> connection)
    : connection_(std::move(connection)) {}
EventLogReader::~EventLogReader() = default;

Result<std::unique_ptr<EventLogReader>> EventLogReader::Open(const std::string& path) {
  if (::access(path.c_str(), F_OK) != 0) return NotFound("there is no event log " + path);
  auto connection = std::make_unique<Connection>(path);
  RETURN_IF_ERROR(connection->Open());
  ASSIGN_OR_RETURN(const int64_t application, connection->Number("PRAGMA application_id"));
  if (application != kLogApplicationId) {
    return DataLoss(path + " is not an event log of a controller");
  }
  ASSIGN_OR_RETURN(const int64_t format, connection->Number("PRAGMA user_version"));
  if (format < 1 || format > kNewestFormat) {
    return FailedPrecondition("the event log " + path + " has format " + std::to_string(format) +
                              ", this program reads 1 to " + std::to_string(kNewestFormat));
  }
  connection->set_format(format);
  return std::unique_ptr<EventLogReader>(new EventLogReader(std::move(connection)));
}

Result<std::vector<std::string>> EventLogReader::Jobs() {
  std::vector<std::string> jobs;
  const std::string sql = std::string("SELECT job_id FROM ") + connection_->notifications() +
                          " WHERE job_id<>'' GROUP BY job_id ORDER BY min(id)";
  RETURN_IF_ERROR(connection_->Rows(sql, [&jobs](sqlite3_stmt* row) {
    const auto* text = reinterpret_cast<const char*>(sqlite3_column_text(row, 0));
    if (text != nullptr) jobs.emplace_back(text);
  }));
  return jobs;
}

Status EventLogReader::Events(const std::function<void(Instant now, const proto::Event&)>& take) {
  proto::Event event;
  return connection_->Rows(
      "SELECT now_ns, event FROM events ORDER BY sequence", [&](sqlite3_stmt* row) {
        if (event.ParseFromArray(sqlite3_column_blob(row, 1), sqlite3_column_bytes(row, 1))) {
          take(InstantFromNanoseconds(sqlite3_column_int64(row, 0)), event);
        } else {
          ++unreadable_rows_;
        }
      });
}

Status EventLogReader::Notifications(const std::function<void(const proto::Notification&)>& take) {
  proto::Notification notification;
  const std::string sql = std::string("SELECT ") + connection_->notification() + " FROM " +
                          connection_->notifications() + " ORDER BY id";
  return connection_->Rows(sql, [&](sqlite3_stmt* row) {
    if (notification.ParseFromArray(sqlite3_column_blob(row, 0), sqlite3_column_bytes(row, 0))) {
      take(notification);
    } else {
      ++unreadable_rows_;
    }
  });
}

}  // namespace longhaul::service
