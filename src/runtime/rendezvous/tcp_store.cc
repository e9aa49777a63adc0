#include "runtime/rendezvous/tcp_store.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "base/text.h"

namespace longhaul::runtime {
namespace {

// What an entry, a queue's value or an awaited key costs beside its own bytes: nodes, buckets and
// string headers, rounded up.
constexpr uint64_t kEntryOverheadBytes = 192;
constexpr size_t kKeptOutputBytes = 64 * 1024;  // of an idle connection's buffer

constexpr uint8_t kReady = 0;     // CHECK
constexpr uint8_t kNotReady = 1;  // CHECK
constexpr uint8_t kWaitDone = 0;
constexpr uint8_t kWaitCancelled = 1;

using enum StoreOperation;

}  // namespace

TcpStore::TcpStore(StoreDialect dialect, StoreLimits limits) : dialect_(dialect), limits_(limits) {}

TcpStore::ConnectionId TcpStore::Open() {
  const ConnectionId id = next_connection_++;
  connections_.try_emplace(id, id, dialect_);
  return id;
}

TcpStore::Connection& TcpStore::Find(ConnectionId connection) {
  const auto found = connections_.find(connection);
  CHECK(found != connections_.end()) << "no connection " << connection;
  return found->second;
}

Status TcpStore::Receive(ConnectionId id, std::span<const std::byte> bytes) {
  Connection& connection = Find(id);
  connection.parser.Append(bytes);
  while (true) {
    ASSIGN_OR_RETURN(std::optional<StoreRequest> request, connection.parser.Next());
    // An old client that gives up waiting says nothing; its next request says it. From the first
    // byte on, a late wake-up would be taken for that request's answer.
    if (request.has_value() || connection.parser.in_request()) EndWait(connection);
    if (!request.has_value()) break;
    RETURN_IF_ERROR(Execute(connection, *request));
  }
  // The old charge is returned before the new one is made, so that a connection near the limit is
  // not refused for the same bytes twice.
  Release(std::exchange(connection.buffered_bytes, 0));
  RETURN_IF_ERROR(Charge(connection.parser.buffered_bytes()));
  connection.buffered_bytes = connection.parser.buffered_bytes();
  return {};
}

void TcpStore::Close(ConnectionId id) {
  Connection& connection = Find(id);
  EndWait(connection);
  Release(connection.buffered_bytes + connection.output.size() - connection.sent_bytes);
  with_output_.erase(id);
  connections_.erase(id);
}

std::string_view TcpStore::Output(ConnectionId id) const {
  const Connection& connection = const_cast<TcpStore*>(this)->Find(id);
  return std::string_view(connection.output).substr(connection.sent_bytes);
}

void TcpStore::Consume(ConnectionId id, size_t bytes) {
  Connection& connection = Find(id);
  CHECK(bytes <= connection.output.size() - connection.sent_bytes);
  connection.sent_bytes += bytes;
  Release(bytes);
  if (connection.sent_bytes < connection.output.size()) return;
  connection.output.clear();
  if (connection.output.capacity() > kKeptOutputBytes) connection.output.shrink_to_fit();
  connection.sent_bytes = 0;
  with_output_.erase(id);
}

// An error status closes this connection only. The values stay, and other clients are not affected.
Status TcpStore::Execute(Connection& connection, StoreRequest& request) {
  std::vector<std::string>& texts = request.texts;
  switch (request.operation) {
    case kValidate:
      return {};  // the parser has checked it
    case kSet:
      return Set(texts[0], std::move(texts[1]));
    case kCompareSet:
      return CompareSet(connection, request);
    case kGet:
      return ReplyText(connection, Value(texts[0]));
    case kAdd:
      return Add(connection, request);
    case kCheck: {
      bool ready = true;
      for (const std::string& key : texts) ready = ready && Has(key);
      return Reply(connection, ready ? kReady : kNotReady);
    }
    case kWait:
      return Wait(connection, request);
    case kDeleteKey:
      return Delete(connection, texts[0]);
    default:
      return ExecuteRest(connection, request);
  }
}

Status TcpStore::ExecuteRest(Connection& connection, StoreRequest& request) {
  std::vector<std::string>& texts = request.texts;
  switch (request.operation) {
    case kGetNumKeys:
      return Reply(connection, static_cast<int64_t>(values_.size()));
    case kListKeys:
      return ListKeys(connection);
    case kBarrier:
      return Barrier(connection, request);
    case kAppend:
      return Append(texts[0], std::move(texts[1]));
    case kMultiGet:
      return MultiGet(connection, request);
    case kMultiSet:
      for (size_t i = 0; i < texts.size(); i += 2) {
        RETURN_IF_ERROR(Set(texts[i], std::move(texts[i + 1])));
      }
      return {};
    case kCancelWait:
      return Reply(connection, kWaitCancelled);
    case kPing:
      return Reply(connection, static_cast<uint32_t>(request.number));
    case kQueuePush:
      return Push(texts[0], std::move(texts[1]));
    case kQueuePop:
      return Pop(connection, texts[0]);
    case kQueueLength: {
      const auto queue = queues_.find(texts[0]);
      return Reply(connection,
                   static_cast<int64_t>(queue == queues_.end() ? 0 : queue->second.size()));
    }
    default:
      return {};  // WATCH_KEY: accepted, never called back
  }
}

// A key that isn't there and is expected to hold something: the client receives what it expected,
// as PyTorch's server does.
Status TcpStore::CompareSet(Connection& connection, StoreRequest& request) {
  const std::string& key = request.texts[0];
  const std::string& expected = request.texts[1];
  const auto entry = values_.find(key);
  if (entry == values_.end() && !expected.empty()) return ReplyText(connection, expected);
  if (entry == values_.end() || entry->second == expected) {
    RETURN_IF_ERROR(Set(key, std::move(request.texts[2])));
  }
  return ReplyText(connection, Value(key));
}

Status TcpStore::Add(Connection& connection, const StoreRequest& request) {
  ASSIGN_OR_RETURN(const int64_t sum, AddTo(request.texts[0], request.number));
  return Reply(connection, sum);
}

// Adds to the decimal text of a key, which counts as 0 if it is missing; returns the sum.
Result<int64_t> TcpStore::AddTo(const std::string& key, int64_t summand) {
  const auto entry = values_.find(key);
  int64_t sum = 0;
  if (entry != values_.end()) {
    const Result<int64_t> value = ParseInt64(entry->second);
    if (!value.ok()) return value.status().WithContext("cannot add to key " + Printable(key));
    sum = *value;
  }
  if (__builtin_add_overflow(sum, summand, &sum)) {
    return OutOfRange("the sum of key " + Printable(key) + " overflows");
  }
  RETURN_IF_ERROR(Set(key, std::to_string(sum)));
  return sum;
}

Status TcpStore::ListKeys(Connection& connection) {
  std::vector<std::string_view> keys;
  keys.reserve(values_.size());
  for (const auto& [key, value] : values_) keys.push_back(key);
  // The map has no order of its own, and answers must not differ between runs.
  std::ranges::sort(keys);
  RETURN_IF_ERROR(Reply(connection, uint64_t{keys.size()}));
  for (const std::string_view key : keys) RETURN_IF_ERROR(ReplyText(connection, key));
  return {};
}

// Counts the clients in the value of the key. The one with which the count reaches its own number
// releases all clients that wait at this key; later ones pass at once.
Status TcpStore::Barrier(Connection& connection, StoreRequest& request) {
  std::string& key = request.texts[0];
  ASSIGN_OR_RETURN(const int64_t arrived, AddTo(key, 1));
  if (arrived < request.number) {
    const uint64_t bytes = 2 * key.size() + kEntryOverheadBytes;
    RETURN_IF_ERROR(Charge(bytes));
    connection.wait_bytes += bytes;
    connection.ticket = next_ticket_++;
    connection.missing = 1;
    at_barriers_[key].emplace(connection.ticket, connection.id);
    connection.awaited.push_back(std::move(key));
    return {};
  }
  const auto found = at_barriers_.find(key);
  if (found != at_barriers_.end()) {
    const std::map<uint64_t, ConnectionId> waiting = std::move(found->second);
    at_barriers_.erase(found);
    for (const auto& [ticket, id] : waiting) Arrived(Find(id));
  }
  return Reply(connection, kWaitDone);
}

Status TcpStore::MultiGet(Connection& connection, const StoreRequest& request) {
  for (const std::string& key : request.texts) {
    RETURN_IF_ERROR(ReplyText(connection, Value(key)));
  }
  return {};
}

Status TcpStore::Delete(Connection& connection, const std::string& key) {
  const auto entry = values_.find(key);
  if (entry == values_.end()) return Reply(connection, int64_t{0});
  Release(key.size() + entry->second.size() + kEntryOverheadBytes);
  values_.erase(entry);
  return Reply(connection, int64_t{1});
}

// A key that is named twice is counted once: `emplace` fails for the second one, since both have
// the same ticket.
Status TcpStore::Wait(Connection& connection, StoreRequest& request) {
  const uint64_t ticket = next_ticket_++;
  connection.ticket = ticket;
  for (std::string& key : request.texts) {
    if (Has(key)) continue;
    // Twice the key: here and in the index.
    const uint64_t bytes = 2 * key.size() + kEntryOverheadBytes;
    RETURN_IF_ERROR(Charge(bytes));
    connection.wait_bytes += bytes;
    if (waiters_[key].emplace(ticket, connection.id).second) ++connection.missing;
    connection.awaited.push_back(std::move(key));
  }
  // No answer yet: the client blocks until Arrived() sends one.
  if (connection.missing > 0) return {};
  EndWait(connection);
  return Reply(connection, kWaitDone);
}

// A key of a queue is separate from a key with a value, but Has() and therefore WAIT cover both.
Status TcpStore::Push(const std::string& key, std::string value) {
  const auto queue = queues_.find(key);
  const uint64_t queue_bytes = queue == queues_.end() ? key.size() + kEntryOverheadBytes : 0;
  RETURN_IF_ERROR(Charge(queue_bytes + value.size() + kEntryOverheadBytes));
  queues_[key].push_back(std::move(value));
  WakeOne(key);
  return {};
}

Status TcpStore::Pop(Connection& connection, const std::string& key) {
  const auto queue = queues_.find(key);
  if (queue == queues_.end()) return Reply(connection, int64_t{0});
  RETURN_IF_ERROR(Reply(connection, static_cast<int64_t>(queue->second.size())));
  RETURN_IF_ERROR(ReplyText(connection, queue->second.front()));
  Release(queue->second.front().size() + kEntryOverheadBytes);
  queue->second.pop_front();
  if (queue->second.empty()) {
    Release(key.size() + kEntryOverheadBytes);
    queues_.erase(queue);
  }
  return {};
}

Status TcpStore::Set(const std::string& key, std::string value) {
  const auto entry = values_.find(key);
  if (entry != values_.end()) {
    Release(entry->second.size());
    Status fits = Charge(value.size());
    if (!fits.ok()) {
      memory_bytes_ += entry->second.size();  // the old value stays
      return fits;
    }
    entry->second = std::move(value);
    return {};
  }
  RETURN_IF_ERROR(Charge(key.size() + value.size() + kEntryOverheadBytes));
  values_.emplace(key, std::move(value));
  WakeAll(key);
  return {};
}

Status TcpStore::Append(const std::string& key, std::string value) {
  const auto entry = values_.find(key);
  if (entry == values_.end()) return Set(key, std::move(value));
  if (entry->second.size() + value.size() > kMaxStoreValueBytes) {
    return ResourceExhausted("key " + Printable(key) + " would hold more than " +
                             std::to_string(kMaxStoreValueBytes) + " bytes");
  }
  RETURN_IF_ERROR(Charge(value.size()));
  entry->second += value;
  return {};
}

std::string_view TcpStore::Value(const std::string& key) const {
  const auto entry = values_.find(key);
  return entry == values_.end() ? std::string_view() : entry->second;
}

void TcpStore::WakeAll(const std::string& key) {
  const auto found = waiters_.find(key);
  if (found == waiters_.end()) return;
  const std::map<uint64_t, ConnectionId> waiting = std::move(found->second);
  waiters_.erase(found);
  for (const auto& [ticket, id] : waiting) Arrived(Find(id));
}

// One value serves one waiting client: the one with the lowest ticket, which has waited longest.
void TcpStore::WakeOne(const std::string& key) {
  const auto found = waiters_.find(key);
  if (found == waiters_.end()) return;
  const ConnectionId id = found->second.begin()->second;
  found->second.erase(found->second.begin());
  if (found->second.empty()) waiters_.erase(found);
  Arrived(Find(id));
}

void TcpStore::Arrived(Connection& connection) {
  CHECK(connection.missing > 0);
  if (--connection.missing > 0) return;
  EndWait(connection);
  // Not refused by any limit: a lost wake-up would hang its client, and it is one byte a wait.
  Send(connection, std::string_view(reinterpret_cast<const char*>(&kWaitDone), 1));
}

// Ticket 0 means that the connection does not wait. The charge for the wait is returned with it.
void TcpStore::EndWait(Connection& connection) {
  if (connection.ticket == 0) return;
  for (const std::string& key : connection.awaited) {
    Forget(waiters_, key, connection.ticket);
    Forget(at_barriers_, key, connection.ticket);
  }
  connection.ticket = 0;
  connection.missing = 0;
  connection.awaited = {};
  Release(std::exchange(connection.wait_bytes, 0));
}

void TcpStore::Forget(Waiters& waiters, const std::string& key, uint64_t ticket) {
  const auto found = waiters.find(key);
  if (found == waiters.end()) return;
  found->second.erase(ticket);
  if (found->second.empty()) waiters.erase(found);
}

template <typename Number>
Status TcpStore::Reply(Connection& connection, Number number) {
  RETURN_IF_ERROR(Reserve(connection, sizeof(number)));
  Send(connection, std::string_view(reinterpret_cast<const char*>(&number), sizeof(number)));
  return {};
}

Status TcpStore::ReplyText(Connection& connection, std::string_view text) {
  RETURN_IF_ERROR(Reserve(connection, sizeof(uint64_t) + text.size()));
  RETURN_IF_ERROR(Reply(connection, uint64_t{text.size()}));
  Send(connection, text);
  return {};
}

// Two limits: what one client leaves unread, and the memory of the whole store.
Status TcpStore::Reserve(const Connection& connection, uint64_t bytes) const {
  const uint64_t unread_bytes = connection.output.size() - connection.sent_bytes + bytes;
  if (unread_bytes > static_cast<uint64_t>(limits_.unread_output.count())) {
    return ResourceExhausted("a store client leaves " + std::to_string(unread_bytes) +
                             " bytes of answers unread");
  }
  if (memory_bytes_ + bytes > static_cast<uint64_t>(limits_.memory.count())) {
    return ResourceExhausted("the store is full: " + ToString(memory()) + " are in use");
  }
  return {};
}

void TcpStore::Send(Connection& connection, std::string_view bytes) {
  if (bytes.empty()) return;
  connection.output.append(bytes);
  memory_bytes_ += bytes.size();
  with_output_.insert(connection.id);
}

Status TcpStore::Charge(uint64_t bytes) {
  if (memory_bytes_ + bytes > static_cast<uint64_t>(limits_.memory.count())) {
    return ResourceExhausted("the store is full: " + ToString(memory()) + " are in use");
  }
  memory_bytes_ += bytes;
  return {};
}

void TcpStore::Release(uint64_t bytes) {
  CHECK(bytes <= memory_bytes_);
  memory_bytes_ -= bytes;
}

}  // namespace longhaul::runtime
