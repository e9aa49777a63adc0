#include "service/controller/standby/postgres_log.h"

#include <algorithm>
#include <utility>

#include "io/log/log.h"

namespace longhaul::service {
namespace {

constexpr Duration kOpenLimit = std::chrono::seconds(10);
// Whether this controller still leads is decided meanwhile by the lease (leadership.h).
constexpr Duration kAppendLimit = std::chrono::seconds(30);
constexpr Duration kReadLimit = std::chrono::seconds(10);
constexpr int64_t kRowsPerRead = 2000;
constexpr const char* kFormat = "1";

// One at a time: CREATE ... IF NOT EXISTS of two controllers can fail otherwise. The number is
// "longhaul" as bytes.
constexpr const char* kLockTables = "SELECT pg_advisory_lock(7813581480282253676)";
constexpr const char* kUnlockTables = "SELECT pg_advisory_unlock(7813581480282253676)";
constexpr const char* kTables[] = {
    "CREATE SCHEMA IF NOT EXISTS longhaul",
    "CREATE TABLE IF NOT EXISTS longhaul.meta(key text PRIMARY KEY, value text NOT NULL)",
    "CREATE TABLE IF NOT EXISTS longhaul.events(sequence bigint PRIMARY KEY, now_ns bigint NOT "
    "NULL, event bytea NOT NULL)",
    "CREATE TABLE IF NOT EXISTS longhaul.notifications(id bigint PRIMARY KEY, job_id text NOT "
    "NULL, kind text NOT NULL, notification bytea NOT NULL)",
    "CREATE INDEX IF NOT EXISTS notifications_by_job ON longhaul.notifications(job_id, id)",
    "CREATE TABLE IF NOT EXISTS longhaul.documents(name text PRIMARY KEY, text bytea NOT NULL)",
    // `term` is the key so that a takeover conflicts with appends under way and a renewal of the
    // lease does not (the locks FOR KEY SHARE and FOR NO KEY UPDATE).
    "CREATE TABLE IF NOT EXISTS longhaul.leader(term bigint PRIMARY KEY, holder text NOT NULL, "
    "rest text NOT NULL, agents text NOT NULL, lease_end timestamptz NOT NULL)",
    "INSERT INTO longhaul.leader SELECT 0, '', '', '', '-infinity' "
    "WHERE NOT EXISTS (SELECT FROM longhaul.leader)",
};

// A row of `held` exists while the term is this controller's. The lock is kept until the commit.
constexpr const char* kAppend =
    "WITH held AS MATERIALIZED (SELECT 1 FROM longhaul.leader WHERE term = $1::bigint FOR KEY "
    "SHARE), "
    "events AS (INSERT INTO longhaul.events SELECT added.* FROM held, "
    "unnest($2::bigint[], $3::bigint[], $4::bytea[]) AS added), "
    "notifications AS (INSERT INTO longhaul.notifications SELECT added.* FROM held, "
    "unnest($5::bigint[], $6::text[], $7::text[], $8::bytea[]) AS added) "
    "SELECT count(*) FROM held";

constexpr const char* kWriteDocument =
    "WITH held AS MATERIALIZED (SELECT 1 FROM longhaul.leader WHERE term = $1::bigint FOR KEY "
    "SHARE), "
    "documents AS (INSERT INTO longhaul.documents SELECT $2::text, $3::bytea FROM held "
    "ON CONFLICT (name) DO UPDATE SET text = EXCLUDED.text) "
    "SELECT count(*) FROM held";

std::vector<PostgresValue> RowsOf(std::span<const LogEntry> batch, uint64_t sequence,
                                  int64_t term) {
  std::vector<int64_t> sequences, times, ids;
  std::vector<std::string> events, jobs, kinds, notifications;
  for (const LogEntry& entry : batch) {
    ++sequence;
    sequences.push_back(static_cast<int64_t>(sequence));
    times.push_back(ToNanoseconds(entry.now));
    events.push_back(entry.event.SerializeAsString());
    const size_t kept = std::min<size_t>(entry.notifications.size(), kNotificationsPerEvent);
    for (size_t i = 0; i < kept; ++i) {
      const proto::Notification& each = entry.notifications[i];
      ids.push_back(static_cast<int64_t>(sequence * kNotificationsPerEvent + i));
      jobs.push_back(each.job_id());
      kinds.push_back(NotificationKind(each));
      notifications.push_back(each.SerializeAsString());
    }
  }
  return {ValueOf(term), ArrayOf(sequences), ArrayOf(times),     ByteArrayOf(events),
          ArrayOf(ids),  TextArrayOf(jobs),  TextArrayOf(kinds), ByteArrayOf(notifications)};
}

}  // namespace

Result<std::unique_ptr<PostgresLog>> PostgresLog::Open(const PostgresAddress& address,
                                                       const std::string& cluster) {
  std::unique_ptr<PostgresLog> log(new PostgresLog(address));
  RETURN_IF_ERROR(log->Prepare(cluster));
  return log;
}

// All statements are idempotent, so a failure in between leaves a database that the next start
// completes.
Status PostgresLog::Prepare(const std::string& cluster) {
  const auto found =
      writer_.Query("SELECT value FROM longhaul.meta WHERE key = 'cluster'", {}, kOpenLimit);
  if (!found.ok() && found.status().code() != Code::kNotFound) return found.status();
  if (!found.ok() || found->size() == 0) {
    RETURN_IF_ERROR(writer_.Query(kLockTables, {}, kOpenLimit).status());
    for (const char* table : kTables) {
      RETURN_IF_ERROR(writer_.Query(table, {}, kOpenLimit).status());
    }
    const PostgresValue values[] = {ValueOf(std::string(kFormat)), ValueOf(cluster)};
    RETURN_IF_ERROR(writer_
                        .Query("INSERT INTO longhaul.meta VALUES ('format', $1::text), "
                               "('cluster', $2::text) ON CONFLICT DO NOTHING",
                               values, kOpenLimit)
                        .status());
    RETURN_IF_ERROR(writer_.Query(kUnlockTables, {}, kOpenLimit).status());
  }
  ASSIGN_OR_RETURN(const PostgresRows facts,
                   writer_.Query("SELECT (SELECT value FROM longhaul.meta WHERE key = 'format'), "
                                 "(SELECT value FROM longhaul.meta WHERE key = 'cluster'), "
                                 "current_setting('fsync') = 'on', "
                                 "current_setting('synchronous_commit') = 'off'",
                                 {}, kOpenLimit));
  const std::string shown = writer_.address().shown;
  if (facts.Text(0, 0) != kFormat) {
    return FailedPrecondition("the event log " + shown + " has format " +
                              std::string(facts.Text(0, 0)) + ", this program reads " + kFormat);
  }
  if (facts.Text(0, 1) != cluster) {
    return FailedPrecondition(
        "the event log " + shown +
        " belongs to a controller with other secrets: give all controllers of a cluster the same "
        "token (--token-file) and the same files in STATE_DIR/tls, or name another database");
  }
  if (!facts.IsTrue(0, 2) || facts.IsTrue(0, 3)) {
    return FailedPrecondition("the database " + shown +
                              " does not make commits durable: set fsync and synchronous_commit "
                              "to on");
  }
  return Status();
}

Status PostgresLog::NotLeading() const {
  return Aborted("another controller has taken over: the term " + std::to_string(term_) +
                 " of this one has ended in " + writer_.address().shown);
}

Status PostgresLog::AppendOnce(std::span<const PostgresValue> values) {
  ASSIGN_OR_RETURN(const PostgresRows held, writer_.Query(kAppend, values, kAppendLimit));
  return held.Number(0, 0) == 1 ? Status() : NotLeading();
}

// Only the leader adds events, so while the row has its term, the newest event is its own.
Result<bool> PostgresLog::IsAdded(uint64_t last) {
  const PostgresValue values[] = {ValueOf(term_)};
  ASSIGN_OR_RETURN(const PostgresRows rows,
                   writer_.Query("SELECT (SELECT count(*) FROM longhaul.leader WHERE term = "
                                 "$1::bigint), (SELECT coalesce(max(sequence), 0) FROM "
                                 "longhaul.events)",
                                 values, kReadLimit));
  if (rows.Number(0, 0) != 1) return NotLeading();
  return static_cast<uint64_t>(rows.Number(0, 1)) == last;
}

// A batch whose result was lost with the connection is sent again. If it was added, or is added
// meanwhile by the session that was lost, its first sequence exists already.
Status PostgresLog::Append(std::span<const LogEntry> batch) {
  if (batch.empty()) return Status();
  const std::vector<PostgresValue> values = RowsOf(batch, last_sequence(), term_);
  const uint64_t last = last_sequence() + batch.size();
  Status status = AppendOnce(values);
  if (status.code() == Code::kUnavailable) status = AppendOnce(values);
  if (status.code() == Code::kAlreadyExists) {
    ASSIGN_OR_RETURN(const bool added, IsAdded(last));
    if (added) status = Status();
  }
  RETURN_IF_ERROR(status);
  SetLast(last, batch.back().now);
  return Status();
}

Status PostgresLog::ReplayAfter(uint64_t after, const TakeEvent& take) {
  proto::Event event;
  int read = static_cast<int>(kRowsPerRead);
  while (read == kRowsPerRead) {
    const PostgresValue values[] = {ValueOf(static_cast<int64_t>(after)), ValueOf(kRowsPerRead)};
    ASSIGN_OR_RETURN(const PostgresRows rows,
                     writer_.Query("SELECT sequence, now_ns, event FROM longhaul.events WHERE "
                                   "sequence > $1::bigint ORDER BY sequence LIMIT $2::bigint",
                                   values, kReadLimit));
    read = rows.size();
    for (int row = 0; row < read; ++row) {
      const std::string_view bytes = rows.Text(row, 2);
      const bool next = static_cast<uint64_t>(rows.Number(row, 0)) == after + 1;
      const bool parsed = event.ParseFromArray(bytes.data(), static_cast<int>(bytes.size()));
      // A gap means that rows were removed: continuing would give a state that never existed.
      if (!next || !parsed) {
        return DataLoss("event " + std::to_string(after + 1) + " of the event log " +
                        writer_.address().shown + (next ? " cannot be read" : " is missing"));
      }
      ++after;
      const Instant now = InstantFromNanoseconds(rows.Number(row, 1));
      SetLast(after, now);
      RETURN_IF_ERROR(take(after, now, event));
    }
  }
  return Status();
}

Result<std::vector<LoggedNotification>> PostgresLog::Notifications(uint64_t after, const JobId& job,
                                                                   size_t limit) {
  const PostgresValue values[] = {
      ValueOf(static_cast<int64_t>(std::min<uint64_t>(after, INT64_MAX))),
      ValueOf(static_cast<int64_t>(limit)), ValueOf(job.value())};
  const char* const sql =
      job.empty() ? "SELECT id, notification FROM longhaul.notifications WHERE id > $1::bigint "
                    "ORDER BY id LIMIT $2::bigint"
                  : "SELECT id, notification FROM longhaul.notifications WHERE id > $1::bigint "
                    "AND job_id = $3::text ORDER BY id LIMIT $2::bigint";
  const std::lock_guard lock(reader_mutex_);
  ASSIGN_OR_RETURN(const PostgresRows rows,
                   reader_.Query(sql, std::span(values).first(job.empty() ? 2 : 3), kReadLimit));
  std::vector<LoggedNotification> notifications(static_cast<size_t>(rows.size()));
  for (int row = 0; row < rows.size(); ++row) {
    LoggedNotification& each = notifications[static_cast<size_t>(row)];
    each.id = static_cast<uint64_t>(rows.Number(row, 0));
    const std::string_view bytes = rows.Text(row, 1);
    if (!each.notification.ParseFromArray(bytes.data(), static_cast<int>(bytes.size()))) {
      return DataLoss("notification " + std::to_string(each.id) + " of the event log " +
                      reader_.address().shown + " cannot be read");
    }
  }
  return notifications;
}

Result<std::vector<LoggedEvent>> PostgresLog::EventsAfter(uint64_t after, size_t limit) {
  const PostgresValue values[] = {
      ValueOf(static_cast<int64_t>(std::min<uint64_t>(after, INT64_MAX))),
      ValueOf(static_cast<int64_t>(limit))};
  const std::lock_guard lock(reader_mutex_);
  ASSIGN_OR_RETURN(const PostgresRows rows,
                   reader_.Query("SELECT sequence, now_ns, event FROM longhaul.events WHERE "
                                 "sequence > $1::bigint ORDER BY sequence LIMIT $2::bigint",
                                 values, kReadLimit));
  std::vector<LoggedEvent> events(static_cast<size_t>(rows.size()));
  for (int row = 0; row < rows.size(); ++row) {
    LoggedEvent& each = events[static_cast<size_t>(row)];
    each.sequence = static_cast<uint64_t>(rows.Number(row, 0));
    each.now = InstantFromNanoseconds(rows.Number(row, 1));
    const std::string_view bytes = rows.Text(row, 2);
    if (!each.event.ParseFromArray(bytes.data(), static_cast<int>(bytes.size()))) {
      return DataLoss("event " + std::to_string(each.sequence) + " of the event log " +
                      reader_.address().shown + " cannot be read");
    }
  }
  return events;
}

class PostgresLog::StoredDocument final : public SecretDocument {
 public:
  StoredDocument(PostgresLog& log, std::string name) : log_(log), name_(std::move(name)) {}

  Result<std::string> Read(uint64_t limit) override {
    const PostgresValue values[] = {ValueOf(name_)};
    const std::lock_guard lock(log_.reader_mutex_);
    ASSIGN_OR_RETURN(const PostgresRows rows,
                     log_.reader_.Query("SELECT text FROM longhaul.documents WHERE name = $1::text",
                                        values, kReadLimit));
    if (rows.size() == 0) return NotFound("there is no " + Place());
    const std::string_view text = rows.Text(0, 0);
    if (text.size() <= limit) return std::string(text);
    return ResourceExhausted(Place() + " has " + std::to_string(text.size()) +
                             " bytes, expected at most " + std::to_string(limit));
  }

  Status Write(std::string_view text) override {
    const PostgresValue values[] = {
        ValueOf(log_.term_), ValueOf(name_), {std::string(text), /*binary=*/true}};
    const std::lock_guard lock(log_.reader_mutex_);
    ASSIGN_OR_RETURN(const PostgresRows held,
                     log_.reader_.Query(kWriteDocument, values, kReadLimit));
    return held.Number(0, 0) == 1 ? Status() : log_.NotLeading();
  }

  std::string Place() const override {
    return "the row '" + name_ + "' of longhaul.documents in " + log_.reader_.address().shown;
  }

 private:
  PostgresLog& log_;
  const std::string name_;
};

std::unique_ptr<SecretDocument> PostgresLog::Document(const std::string& name) {
  return std::make_unique<StoredDocument>(*this, name);
}

}  // namespace longhaul::service
