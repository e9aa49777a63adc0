// The key-value store for the rendezvous of PyTorch workers: a TCPStore server without sockets.
//
// Bytes of many connections go in, bytes for them come out; store_server.h does the I/O. One store
// serves one attempt of a job and starts empty. Each connection may use any of the three dialects
// of request_parser.h. Wire format and semantics: docs/tcp-store.md.
//
// Leaves out WATCH_KEY's callbacks, which PyTorch's own collectives never request.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "base/status.h"
#include "base/units.h"
#include "runtime/rendezvous/request_parser.h"

namespace longhaul::runtime {

struct StoreLimits {
  Bytes memory{1LL << 30};          // of everything: entries, requests, waits, unread output
  Bytes unread_output{64LL << 20};  // of one connection
};

class TcpStore {
 public:
  using ConnectionId = uint64_t;

  explicit TcpStore(StoreDialect dialect, StoreLimits limits = {});

  ConnectionId Open();

  // Takes the next bytes of a connection and carries out the requests they complete. An error means
  // that this connection must be closed: the client broke the protocol or a limit.
  // Requires an open connection.
  Status Receive(ConnectionId connection, std::span<const std::byte> bytes);

  // Removes a connection, its incomplete request and its waits. Requires an open connection.
  void Close(ConnectionId connection);

  // Connections with bytes to send, lowest first.
  const std::set<ConnectionId>& with_output() const { return with_output_; }
  // The bytes to send next; valid until the store's next call. Requires an open connection.
  std::string_view Output(ConnectionId connection) const;
  // Removes the first `bytes` of the output, which are sent. Requires that there are so many.
  void Consume(ConnectionId connection, size_t bytes);

  // The number of entries and of non-empty queues.
  size_t keys() const { return values_.size() + queues_.size(); }
  size_t connections() const { return connections_.size(); }
  Bytes memory() const { return Bytes(static_cast<int64_t>(memory_bytes_)); }

 private:
  struct Connection {
    Connection(ConnectionId number, StoreDialect dialect) : id(number), parser(dialect) {}

    ConnectionId id;
    StoreRequestParser parser;
    uint64_t buffered_bytes = 0;  // the parser's, as counted in memory_bytes_
    std::string output;
    size_t sent_bytes = 0;  // of output

    // The pending wait. Its ticket is its position among all waits; 0 when there is none.
    uint64_t ticket = 0;
    std::vector<std::string> awaited;  // keys that were missing when it began
    size_t missing = 0;                // keys still missing; 1 in a barrier
    uint64_t wait_bytes = 0;
  };

  Connection& Find(ConnectionId connection);
  Status Execute(Connection& connection, StoreRequest& request);
  Status ExecuteRest(Connection& connection, StoreRequest& request);
  Status CompareSet(Connection& connection, StoreRequest& request);
  Status Add(Connection& connection, const StoreRequest& request);
  Result<int64_t> AddTo(const std::string& key, int64_t summand);
  Status ListKeys(Connection& connection);
  Status Barrier(Connection& connection, StoreRequest& request);
  Status MultiGet(Connection& connection, const StoreRequest& request);
  Status Delete(Connection& connection, const std::string& key);
  Status Wait(Connection& connection, StoreRequest& request);
  Status Push(const std::string& key, std::string value);
  Status Pop(Connection& connection, const std::string& key);
  Status Set(const std::string& key, std::string value);
  Status Append(const std::string& key, std::string value);

  bool Has(const std::string& key) const { return values_.contains(key) || queues_.contains(key); }
  std::string_view Value(const std::string& key) const;  // empty if missing

  // The key exists now: wakes all waits for it, or only the one that has waited longest.
  void WakeAll(const std::string& key);
  void WakeOne(const std::string& key);
  void Arrived(Connection& connection);
  void EndWait(Connection& connection);
  using Waiters = std::unordered_map<std::string, std::map<uint64_t, ConnectionId>>;  // by ticket
  static void Forget(Waiters& waiters, const std::string& key, uint64_t ticket);

  template <typename Number>
  Status Reply(Connection& connection, Number number);
  Status ReplyText(Connection& connection, std::string_view text);
  // Whether the connection may be sent `bytes` more.
  Status Reserve(const Connection& connection, uint64_t bytes) const;
  void Send(Connection& connection, std::string_view bytes);
  Status Charge(uint64_t bytes);  // fails when it exceeds the limit
  void Release(uint64_t bytes);

  StoreDialect dialect_;
  StoreLimits limits_;
  std::map<ConnectionId, Connection> connections_;
  ConnectionId next_connection_ = 1;
  uint64_t next_ticket_ = 1;
  std::set<ConnectionId> with_output_;

  // Their order differs between machines, so LIST_KEYS sorts it.
  std::unordered_map<std::string, std::string> values_;
  std::unordered_map<std::string, std::deque<std::string>> queues_;  // none of them empty
  Waiters waiters_;
  Waiters at_barriers_;  // clients that wait in BARRIER, by its key
  uint64_t memory_bytes_ = 0;
};

}  // namespace longhaul::runtime
