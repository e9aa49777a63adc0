#include "service/controller/standby/postgres_connection.h"

#include <poll.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include "base/check.h"
#include "base/text.h"
#include "io/clock.h"

namespace longhaul::service {
namespace {

constexpr Duration kPollUnit = std::chrono::milliseconds(1);
// Types by their numbers in PostgreSQL's catalog, which do not change.
constexpr uint32_t kTypeBytes = 17, kTypeNumber = 20, kTypeText = 25;

void PutNetworkOrder(std::string& to, uint64_t number, int bytes) {
  for (int i = bytes - 1; i >= 0; --i) to += static_cast<char>(number >> (8 * i) & 0xff);
}

// One dimension from index 1: the count of dimensions, whether there are nulls, the type, the count
// and the first index; then each element with its length.
PostgresValue BinaryArray(uint32_t type, std::span<const std::string> elements) {
  PostgresValue value;
  value.binary = true;
  PutNetworkOrder(value.bytes, 1, 4);
  PutNetworkOrder(value.bytes, 0, 4);
  PutNetworkOrder(value.bytes, type, 4);
  PutNetworkOrder(value.bytes, elements.size(), 4);
  PutNetworkOrder(value.bytes, 1, 4);
  for (const std::string& element : elements) {
    PutNetworkOrder(value.bytes, element.size(), 4);
    value.bytes += element;
  }
  return value;
}

// A message of libpq on one line.
std::string OneLine(const char* message) {
  std::string line(Trim(message == nullptr ? "" : message));
  std::replace(line.begin(), line.end(), '\n', ' ');
  return line.empty() ? "no reason is known" : line;
}

}  // namespace

PostgresValue ValueOf(int64_t number) { return {std::to_string(number), false}; }
PostgresValue ValueOf(std::string text) { return {std::move(text), false}; }

PostgresValue ArrayOf(std::span<const int64_t> numbers) {
  std::vector<std::string> elements(numbers.size());
  for (size_t i = 0; i < numbers.size(); ++i) {
    PutNetworkOrder(elements[i], static_cast<uint64_t>(numbers[i]), 8);
  }
  return BinaryArray(kTypeNumber, elements);
}
PostgresValue TextArrayOf(std::span<const std::string> texts) {
  return BinaryArray(kTypeText, texts);
}
PostgresValue ByteArrayOf(std::span<const std::string> byte_strings) {
  return BinaryArray(kTypeBytes, byte_strings);
}

Result<PostgresAddress> PostgresAddress::Parse(const std::string& text) {
  if (!text.starts_with("postgresql://") && !text.starts_with("postgres://")) {
    // The text is not shown, because it may contain a password.
    return InvalidArgument(
        "--log is not the address of a database: expected postgresql://HOST:PORT/DATABASE");
  }
  PostgresAddress address;
  ASSIGN_OR_RETURN(address.library, LoadPostgresLibrary());
  char* error = nullptr;
  PQconninfoOption* const options = address.library->conninfo_parse(text.c_str(), &error);
  if (options == nullptr) {
    // libpq's message can repeat the address, so it is shown only without a '@' or "password".
    const std::string reason = OneLine(error);
    if (error != nullptr) address.library->free_memory(error);
    const bool may_have_password =
        text.find('@') != std::string::npos || text.find("password") != std::string::npos;
    return InvalidArgument("--log is not an address that libpq reads" +
                           (may_have_password ? std::string() : ": " + reason) +
                           "; expected postgresql://HOST:PORT/DATABASE");
  }
  std::string host = "localhost", port, database;
  bool password = false;
  for (const PQconninfoOption* each = options; each->keyword != nullptr; ++each) {
    if (each->val == nullptr || *each->val == '\0') continue;
    const std::string_view keyword = each->keyword;
    if (keyword == "host") host = each->val;
    if (keyword == "port") port = std::string(":") + each->val;
    if (keyword == "dbname") database = each->val;
    password = password || keyword == "password" || keyword == "sslpassword";
  }
  address.library->conninfo_free(options);
  if (password) {
    return InvalidArgument(
        "--log contains a password, which other users of this machine can read in the list of "
        "processes: leave it out and put it into ~/.pgpass, PGPASSWORD or a service file");
  }
  address.text = text;
  address.shown = "postgresql://" + host + port + "/" + database;
  return address;
}

std::string_view PostgresRows::Text(int row, int column) const {
  CHECK(row >= 0 && row < size());
  return {library_->value(result_.get(), row, column),
          static_cast<size_t>(library_->length(result_.get(), row, column))};
}

int64_t PostgresRows::Number(int row, int column) const {
  const std::string_view bytes = Text(row, column);
  CHECK(bytes.size() == 8) << "a column is not of the type bigint";
  uint64_t number = 0;
  for (const char byte : bytes) number = number << 8 | static_cast<unsigned char>(byte);
  return static_cast<int64_t>(number);
}

void PostgresConnection::Close() {
  if (connection_ != nullptr) address_.library->finish(connection_);
  connection_ = nullptr;
}

// After an error of the connection its state is unknown, so it is not used again.
Status PostgresConnection::Failed(const std::string& reason) {
  Close();
  return Unavailable("the event log " + address_.shown + " cannot be reached: " + reason);
}

Status PostgresConnection::Await(bool write, Instant deadline) {
  while (true) {
    const Duration left = deadline - io::MonotonicNow();
    if (left <= Duration(0)) return Failed("no answer in time");
    pollfd wanted{address_.library->socket(connection_),
                  static_cast<short>(write ? POLLIN | POLLOUT : POLLIN), 0};
    const int ready = ::poll(&wanted, 1, static_cast<int>(left / kPollUnit) + 1);
    if (ready > 0) return Status();
    if (ready < 0 && errno != EINTR) return Failed(std::strerror(errno));
  }
}

Status PostgresConnection::Connect(Instant deadline) {
  const PostgresLibrary& library = *address_.library;
  const char* const keywords[] = {"dbname", "fallback_application_name", nullptr};
  const char* const values[] = {address_.text.c_str(), "longhaul controller", nullptr};
  connection_ = library.connect_start(keywords, values, /*expand_dbname=*/1);
  if (connection_ == nullptr) return Failed("out of memory");
  PostgresPollingStatusType next = PGRES_POLLING_WRITING;
  while (next != PGRES_POLLING_OK) {
    if (next == PGRES_POLLING_FAILED || library.status(connection_) == CONNECTION_BAD) {
      return Failed(OneLine(library.error_message(connection_)));
    }
    RETURN_IF_ERROR(Await(next == PGRES_POLLING_WRITING, deadline));
    next = library.connect_poll(connection_);
  }
  if (library.set_nonblocking(connection_, 1) != 0) return Failed("no mode without blocking");
  ++sessions_;
  return Status();
}

Status PostgresConnection::Send(const char* sql, std::span<const PostgresValue> values,
                                Instant deadline) {
  const PostgresLibrary& library = *address_.library;
  std::vector<const char*> bytes;
  std::vector<int> lengths, formats;
  for (const PostgresValue& value : values) {
    bytes.push_back(value.bytes.c_str());
    lengths.push_back(static_cast<int>(value.bytes.size()));
    formats.push_back(value.binary ? 1 : 0);
  }
  const int sent = library.send_query(connection_, sql, static_cast<int>(values.size()), nullptr,
                                      bytes.data(), lengths.data(), formats.data(), 1);
  if (sent != 1) return Failed(OneLine(library.error_message(connection_)));
  while (true) {
    const int left = library.flush(connection_);
    if (left == 0) return Status();
    if (left < 0) return Failed(OneLine(library.error_message(connection_)));
    // The server may block until its messages are read.
    RETURN_IF_ERROR(Await(true, deadline));
    if (library.consume_input(connection_) != 1) {
      return Failed(OneLine(library.error_message(connection_)));
    }
  }
}

Result<PostgresRows> PostgresConnection::Receive(Instant deadline) {
  const PostgresLibrary& library = *address_.library;
  std::unique_ptr<PGresult, decltype(&::PQclear)> newest(nullptr, library.clear);
  while (true) {
    while (library.is_busy(connection_) == 1) {
      RETURN_IF_ERROR(Await(false, deadline));
      if (library.consume_input(connection_) != 1) {
        return Failed(OneLine(library.error_message(connection_)));
      }
    }
    PGresult* const result = library.get_result(connection_);
    if (result == nullptr) break;
    newest.reset(result);
  }
  if (newest == nullptr) return Failed("it gave no result");
  const ExecStatusType status = library.result_status(newest.get());
  if (status == PGRES_TUPLES_OK || status == PGRES_COMMAND_OK) {
    return PostgresRows(library, newest.release());
  }
  const Status error = ErrorOf(newest.get());
  if (error.code() == Code::kUnavailable) Close();
  return error;
}

// By the SQLSTATE codes of PostgreSQL's manual, appendix A.
Status PostgresConnection::ErrorOf(const PGresult* result) const {
  const char* const field = address_.library->result_error_field(result, PG_DIAG_SQLSTATE);
  const std::string_view state = field == nullptr ? "" : field;
  const std::string message =
      "the event log " + address_.shown + ": " + OneLine(address_.library->result_error(result));
  if (state == "23505") return AlreadyExists(message);
  if (state == "42P01" || state == "3F000") return NotFound(message);
  if (state == "42501") return PermissionDenied(message);
  if (state == "25006") return Unavailable(message + " (this server is a replica)");
  if (state.starts_with("53")) return ResourceExhausted(message);
  if (state.empty() || state.starts_with("57P") || state.starts_with("08") ||
      state.starts_with("40") || state == "57014") {
    return Unavailable(message);
  }
  return InternalError(message);
}

Result<PostgresRows> PostgresConnection::Query(const char* sql,
                                               std::span<const PostgresValue> values,
                                               Duration limit) {
  const Instant deadline = io::MonotonicNow() + limit;
  if (connection_ == nullptr) RETURN_IF_ERROR(Connect(deadline));
  RETURN_IF_ERROR(Send(sql, values, deadline));
  return Receive(deadline);
}

}  // namespace longhaul::service
