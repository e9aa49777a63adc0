// The event log in a PostgreSQL database that several controllers reach. Only the one that leads
// appends; the others follow it (leadership.h decides who leads).
//
// Append is one statement, which first locks the row of the leader and adds nothing unless that row
// still has this controller's term. So a controller that was paused or cut off cannot add an event
// after another one has taken over, and the server holds no lock while it waits for a client.
// docs/standby.md has the tables.
//
// Append and ReplayAfter: one thread at a time. Other methods are thread-safe.
#pragma once

#include <atomic>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <vector>

#include "service/controller/log/event_log.h"
#include "service/controller/standby/postgres_connection.h"
#include "service/security/secret_document.h"

namespace longhaul::service {

class PostgresLog final : public EventLog {
 public:
  // Makes the tables in an empty database. `cluster`: what all controllers of a cluster have in
  // common (a fingerprint of their secrets); kFailedPrecondition if the log has another one, or
  // another format.
  static Result<std::unique_ptr<PostgresLog>> Open(const PostgresAddress& address,
                                                   const std::string& cluster);

  // From now on Append is under this term of the leader (leadership.h). Any thread.
  void Lead(uint64_t term) { term_ = static_cast<int64_t>(term); }

  Status Append(std::span<const LogEntry> batch) override;
  Status ReplayAfter(uint64_t after, const TakeEvent& take) override;
  Result<std::vector<LoggedNotification>> Notifications(uint64_t after, const JobId& job,
                                                        size_t limit) override;
  Result<std::vector<LoggedEvent>> EventsAfter(uint64_t after, size_t limit) override;

  // A document beside the events, written under the term too. Requires that this outlives it.
  std::unique_ptr<SecretDocument> Document(const std::string& name);

 private:
  class StoredDocument;
  explicit PostgresLog(const PostgresAddress& address) : writer_(address), reader_(address) {}
  Status Prepare(const std::string& cluster);
  Status AppendOnce(std::span<const PostgresValue> values);
  // After a failure that leaves open whether the batch was added.
  Result<bool> IsAdded(uint64_t last);
  Status NotLeading() const;

  std::atomic<int64_t> term_ = -1;  // of no leader
  PostgresConnection writer_;
  std::mutex reader_mutex_;  // guards reader_
  PostgresConnection reader_;
};

}  // namespace longhaul::service
