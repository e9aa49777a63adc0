// Requests of the TCPStore protocol, read from a stream of bytes that may be cut anywhere.
//
// Three generations of PyTorch use three dialects that number the operations differently;
// docs/tcp-store.md has the table. The parser recognises the newest by its hello and the middle one
// by operations that the oldest lacks. Otherwise it uses the dialect that it was given.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"

namespace longhaul::runtime {

// Named after the first PyTorch release that uses it.
enum class StoreDialect {
  kTorch1,   // 1.x and 2.0; also assumed for an unknown client
  kTorch21,  // 2.1
  kTorch2,   // 2.2 and later
};

// Whether the text may be a version of PyTorch: at most 40 printable characters that begin with a
// digit.
bool IsTorchVersion(std::string_view text);

// The dialect of a PyTorch's clients by its version ("2.1.2+cu118"); the oldest when unknown.
StoreDialect DialectOfTorch(std::string_view version);

enum class StoreOperation : uint8_t {
  kValidate,
  kSet,
  kCompareSet,
  kGet,
  kAdd,
  kCheck,
  kWait,
  kGetNumKeys,
  kWatchKey,
  kDeleteKey,
  kAppend,
  kMultiGet,
  kMultiSet,
  kCancelWait,
  kPing,
  kQueuePush,
  kQueuePop,
  kQueueLength,
  kListKeys,
  kBarrier,
};

// The largest request of a client; the connection is closed beyond it. PyTorch's own server has the
// same limits.
constexpr uint64_t kMaxStoreKeysPerCall = 131'072;
constexpr uint64_t kMaxStoreKeyBytes = 8 * 1024;
constexpr uint64_t kMaxStoreValueBytes = 8 * 1024 * 1024;

struct StoreRequest {
  StoreOperation operation = StoreOperation::kValidate;
  std::vector<std::string> texts;  // keys and values in the order of the wire
  int64_t number = 0;              // ADD's summand, PING's nonce, BARRIER's clients
};

class StoreRequestParser {
 public:
  explicit StoreRequestParser(StoreDialect dialect) : dialect_(dialect) {}

  void Append(std::span<const std::byte> bytes);

  // Returns the next complete request, or nothing until more bytes arrive. An error is final: the
  // parser must not be used after it.
  Result<std::optional<StoreRequest>> Next();

  // Whether a request has begun and not ended.
  bool in_request() const { return in_request_ || !input_.empty(); }

  // Memory held for a request that is not complete yet.
  uint64_t buffered_bytes() const { return input_.size() + request_bytes_; }

  StoreDialect dialect() const { return dialect_; }

 private:
  // Each returns whether it is done; when not, more bytes are needed.
  bool ReadDialect();
  Result<bool> ReadOperation();
  Result<bool> ReadFields();
  Result<bool> ReadField(char field);
  Result<bool> ReadText(uint64_t limit);
  template <typename Number>
  bool ReadNumber(Number& number);

  Status CheckHello();
  size_t unread_bytes() const { return input_.size() - position_; }

  StoreDialect dialect_;
  bool dialect_known_ = false;
  bool validated_ = false;
  std::string input_;
  size_t position_ = 0;  // in input_: what lies before it has been read

  // The request being read: `items_left_` items remain, and `field_` fields of the present one are
  // read.
  bool in_request_ = false;
  StoreRequest request_;
  uint64_t request_bytes_ = 0;
  std::string_view fields_;
  size_t field_ = 0;
  uint64_t items_left_ = 0;
  bool count_pending_ = false;           // a list whose number of items hasn't been read
  std::optional<uint64_t> text_length_;  // of the text being read, once it is known
};

}  // namespace longhaul::runtime
