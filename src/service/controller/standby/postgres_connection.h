// A connection to PostgreSQL on which every call has a deadline.
//
// It connects at the first query and again after a failure. Only one thread at a time may use it.
// Results are in PostgreSQL's binary format. Passwords come from where libpq takes them
// (~/.pgpass, PGPASSWORD, a service file) and are in no message.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "base/time.h"
#include "service/controller/standby/postgres_library.h"

namespace longhaul::service {

// Where the database is, checked.
struct PostgresAddress {
  const PostgresLibrary* library = nullptr;
  std::string text;   // what libpq takes
  std::string shown;  // for messages: postgresql://HOST:PORT/DATABASE

  // Takes postgresql://HOST:PORT/DATABASE?PARAMETER=VALUE. kInvalidArgument, with the remedy, when
  // libpq does not understand it or it contains a password, which all users of the machine could
  // read in the list of processes.
  static Result<PostgresAddress> Parse(const std::string& text);
};

// A parameter of a query. The SQL casts it ($1::bigint).
struct PostgresValue {
  std::string bytes;
  bool binary = false;
};
PostgresValue ValueOf(int64_t number);
PostgresValue ValueOf(std::string text);
// Arrays in the binary format.
PostgresValue ArrayOf(std::span<const int64_t> numbers);               // bigint[]
PostgresValue TextArrayOf(std::span<const std::string> texts);         // text[]
PostgresValue ByteArrayOf(std::span<const std::string> byte_strings);  // bytea[]

// The rows of a result.
class PostgresRows {
 public:
  PostgresRows(const PostgresLibrary& library, PGresult* result)
      : library_(&library), result_(result, library.clear) {}
  int size() const { return library_->rows(result_.get()); }
  std::string_view Text(int row, int column) const;
  // Requires a column of the type bigint.
  int64_t Number(int row, int column) const;
  // Requires a column of the type boolean.
  bool IsTrue(int row, int column) const { return Text(row, column) == std::string_view("\1", 1); }

 private:
  const PostgresLibrary* library_;
  std::unique_ptr<PGresult, decltype(&::PQclear)> result_;
};

class PostgresConnection {
 public:
  explicit PostgresConnection(PostgresAddress address) : address_(std::move(address)) {}
  ~PostgresConnection() { Close(); }
  PostgresConnection(const PostgresConnection&) = delete;
  PostgresConnection& operator=(const PostgresConnection&) = delete;

  // Runs one statement within `limit`, the time to connect included. kUnavailable: the database
  // cannot be reached or did not answer, and the statement may or may not have been done;
  // kAlreadyExists: a key is there already; kResourceExhausted: its disk is full; kNotFound: there
  // is no such table; kPermissionDenied.
  Result<PostgresRows> Query(const char* sql, std::span<const PostgresValue> values,
                             Duration limit);

  // Ends the session. Its locks are free once the server has noticed.
  void Close();

  // The number of sessions so far. A change means that the locks of the earlier one are lost.
  uint64_t sessions() const { return sessions_; }
  const PostgresAddress& address() const { return address_; }

 private:
  Status Connect(Instant deadline);
  // Blocks until the socket can be read or (if `write`) written.
  Status Await(bool write, Instant deadline);
  Status Send(const char* sql, std::span<const PostgresValue> values, Instant deadline);
  Result<PostgresRows> Receive(Instant deadline);
  Status Failed(const std::string& reason);
  Status ErrorOf(const PGresult* result) const;

  const PostgresAddress address_;
  PGconn* connection_ = nullptr;
  uint64_t sessions_ = 0;
};

}  // namespace longhaul::service
