#include "runtime/rendezvous/request_parser.h"

#include <algorithm>
#include <bit>
#include <cstring>

namespace longhaul::runtime {
namespace {

static_assert(std::endian::native == std::endian::little, "the wire is read as it lies in memory");

constexpr uint32_t kHelloMagic = 0x3C85F7CE;
constexpr std::string_view kHello("\x00\xCE\xF7\x85\x3C", 5);  // VALIDATE and its magic number
constexpr uint64_t kTextOverheadBytes = sizeof(std::string);
constexpr size_t kLongestVersion = 40;
constexpr size_t kKeptCapacityBytes = 64 * 1024;  // of an idle connection's buffer

using enum StoreOperation;

// The operation of each first byte, by dialect.
constexpr StoreOperation kTorch1Operations[] = {kSet,  kCompareSet, kGet,      kAdd,      kCheck,
                                                kWait, kGetNumKeys, kWatchKey, kDeleteKey};
constexpr StoreOperation kTorch21Operations[] = {kSet,    kCompareSet, kGet,        kAdd,
                                                 kCheck,  kWait,       kGetNumKeys, kDeleteKey,
                                                 kAppend, kMultiGet,   kMultiSet,   kCancelWait};
constexpr StoreOperation kTorch2Operations[] = {
    kValidate,   kSet,       kCompareSet,  kGet,      kAdd,      kCheck,      kWait,
    kGetNumKeys, kDeleteKey, kAppend,      kMultiGet, kMultiSet, kCancelWait, kPing,
    kQueuePush,  kQueuePop,  kQueueLength, kListKeys, kBarrier};

std::span<const StoreOperation> Operations(StoreDialect dialect) {
  switch (dialect) {
    case StoreDialect::kTorch1:
      return kTorch1Operations;
    case StoreDialect::kTorch21:
      return kTorch21Operations;
    case StoreDialect::kTorch2:
      return kTorch2Operations;
  }
  return {};
}

// What follows the operation's byte: k a key, v a value, i an i64, u a u32. A list starts with its
// number of items.
struct Shape {
  std::string_view fields;
  bool list = false;
};

Shape ShapeOf(StoreOperation operation) {
  switch (operation) {
    case kValidate:
    case kPing:
      return {"u"};
    case kSet:
    case kAppend:
    case kQueuePush:
      return {"kv"};
    case kCompareSet:
      return {"kvv"};
    case kGet:
    case kWatchKey:
    case kDeleteKey:
    case kQueuePop:
    case kQueueLength:
      return {"k"};
    case kAdd:
    case kBarrier:
      return {"ki"};
    case kCheck:
    case kWait:
    case kMultiGet:
      return {"k", true};
    case kMultiSet:
      return {"kv", true};
    case kGetNumKeys:
    case kCancelWait:
    case kListKeys:
      return {};
  }
  return {};
}

Status TooMany(const char* what, uint64_t value, uint64_t limit) {
  return ResourceExhausted(std::string(what) + " of " + std::to_string(value) +
                           " is over the store's limit of " + std::to_string(limit));
}

}  // namespace

bool IsTorchVersion(std::string_view text) {
  return !text.empty() && text.size() <= kLongestVersion && text[0] >= '0' && text[0] <= '9' &&
         std::all_of(text.begin(), text.end(), [](char c) { return c > ' ' && c <= '~'; });
}

StoreDialect DialectOfTorch(std::string_view version) {
  // Later ones announce themselves, so that a wrong guess does no harm.
  return version == "2.1" || version.starts_with("2.1.") ? StoreDialect::kTorch21
                                                         : StoreDialect::kTorch1;
}

void StoreRequestParser::Append(std::span<const std::byte> bytes) {
  input_.append(reinterpret_cast<const char*>(bytes.data()), bytes.size());
}

// The parser keeps its place within a request, so that bytes may arrive in any division and no
// field is parsed twice. Consumed bytes are removed only when more input is needed: removing them
// after each request would copy the rest of the buffer each time.
Result<std::optional<StoreRequest>> StoreRequestParser::Next() {
  bool whole = dialect_known_ || ReadDialect();
  if (whole && !in_request_) {
    ASSIGN_OR_RETURN(whole, ReadOperation());
  }
  if (whole) {
    ASSIGN_OR_RETURN(whole, ReadFields());
  }
  if (!whole) {
    input_.erase(0, position_);
    position_ = 0;
    if (input_.empty() && input_.capacity() > kKeptCapacityBytes) input_.shrink_to_fit();
    return std::optional<StoreRequest>();
  }
  if (request_.operation == kValidate) RETURN_IF_ERROR(CheckHello());
  in_request_ = false;
  request_bytes_ = 0;
  return std::optional(std::exchange(request_, {}));
}

// A hello can't be a SET of the older dialects: its key would have 1,015,412,686 bytes or more.
bool StoreRequestParser::ReadDialect() {
  const std::string_view start = std::string_view(input_).substr(0, kHello.size());
  if (start == kHello.substr(0, start.size())) {
    if (start.size() < kHello.size()) return false;
    dialect_ = StoreDialect::kTorch2;
  }
  dialect_known_ = true;
  return true;
}

Result<bool> StoreRequestParser::ReadOperation() {
  uint8_t code = 0;
  if (!ReadNumber(code)) return false;
  // The two dialects without a hello have the same first operations. A code beyond the shorter list
  // proves the longer one.
  if (dialect_ == StoreDialect::kTorch1 && code >= std::size(kTorch1Operations)) {
    dialect_ = StoreDialect::kTorch21;
  }
  const std::span<const StoreOperation> operations = Operations(dialect_);
  if (code >= operations.size()) {
    return InvalidArgument("unknown store operation " + std::to_string(code));
  }
  request_.operation = operations[code];
  if (dialect_ == StoreDialect::kTorch2 && !validated_ && request_.operation != kValidate) {
    return InvalidArgument("the first store request is not a hello but operation " +
                           std::to_string(code));
  }
  const Shape shape = ShapeOf(request_.operation);
  fields_ = shape.fields;
  field_ = 0;
  items_left_ = 1;
  count_pending_ = shape.list;
  in_request_ = true;
  return true;
}

Result<bool> StoreRequestParser::ReadFields() {
  if (count_pending_) {
    if (!ReadNumber(items_left_)) return false;
    // Checked before anything is stored: the number comes from the client.
    if (items_left_ > kMaxStoreKeysPerCall) {
      return TooMany("a list of keys", items_left_, kMaxStoreKeysPerCall);
    }
    count_pending_ = false;
  }
  for (; items_left_ > 0; --items_left_) {
    for (; field_ < fields_.size(); ++field_) {
      ASSIGN_OR_RETURN(const bool whole, ReadField(fields_[field_]));
      if (!whole) return false;
    }
    field_ = 0;
  }
  return true;
}

Result<bool> StoreRequestParser::ReadField(char field) {
  switch (field) {
    case 'k':
      return ReadText(kMaxStoreKeyBytes);
    case 'v':
      return ReadText(kMaxStoreValueBytes);
    case 'i':
      return ReadNumber(request_.number);
    default: {
      uint32_t number = 0;
      if (!ReadNumber(number)) return false;
      request_.number = number;
      return true;
    }
  }
}

Result<bool> StoreRequestParser::ReadText(uint64_t limit) {
  if (!text_length_.has_value()) {
    uint64_t length = 0;
    if (!ReadNumber(length)) return false;
    if (length > limit) {
      return TooMany(limit == kMaxStoreKeyBytes ? "a key's length" : "a value's length", length,
                     limit);
    }
    text_length_ = length;
  }
  // The length is kept in `text_length_`, because the text may arrive in many parts.
  if (unread_bytes() < *text_length_) return false;
  request_.texts.push_back(input_.substr(position_, *text_length_));
  request_bytes_ += *text_length_ + kTextOverheadBytes;
  position_ += *text_length_;
  text_length_.reset();
  return true;
}

template <typename Number>
bool StoreRequestParser::ReadNumber(Number& number) {
  if (unread_bytes() < sizeof(Number)) return false;
  std::memcpy(&number, input_.data() + position_, sizeof(Number));
  position_ += sizeof(Number);
  return true;
}

// Once a connection: clients that repeat it before every request speak a dialect of August 2023
// that was never released.
Status StoreRequestParser::CheckHello() {
  if (request_.number != kHelloMagic) return InvalidArgument("a store hello with a wrong number");
  if (std::exchange(validated_, true)) return InvalidArgument("a second store hello");
  return {};
}

}  // namespace longhaul::runtime
