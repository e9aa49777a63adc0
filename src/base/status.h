// Status and Result<T>: errors of the environment, as values.
//
// The codes are the canonical ones (google.rpc.Code), so that they cross gRPC and HTTP without
// translation tables. Bugs are not statuses: they fail a CHECK.
#pragma once

#include <optional>
#include <ostream>
#include <string>
#include <string_view>
#include <utility>

#include "base/check.h"

namespace longhaul {

enum class Code {
  kOk = 0,
  kCancelled = 1,
  kUnknown = 2,
  kInvalidArgument = 3,
  kDeadlineExceeded = 4,
  kNotFound = 5,
  kAlreadyExists = 6,
  kPermissionDenied = 7,
  kResourceExhausted = 8,
  kFailedPrecondition = 9,
  kAborted = 10,
  kOutOfRange = 11,
  kUnimplemented = 12,
  kInternal = 13,
  kUnavailable = 14,
  kDataLoss = 15,
  kUnauthenticated = 16,
};

// The code as text: "not found".
std::string_view ToString(Code code);

class [[nodiscard]] Status {
 public:
  Status() = default;  // ok
  Status(Code code, std::string message);

  bool ok() const { return code_ == Code::kOk; }
  Code code() const { return code_; }
  const std::string& message() const { return message_; }

  // The same failure with "context: " before its message. Requires !ok().
  Status WithContext(std::string_view context) const;

  friend bool operator==(const Status&, const Status&) = default;

 private:
  Code code_ = Code::kOk;
  std::string message_;
};

// "ok", or "not found: no job named x".
std::string ToString(const Status& status);
std::ostream& operator<<(std::ostream& out, const Status& status);

Status CancelledError(std::string message);
Status InvalidArgument(std::string message);
Status DeadlineExceeded(std::string message);
Status NotFound(std::string message);
Status AlreadyExists(std::string message);
Status PermissionDenied(std::string message);
Status ResourceExhausted(std::string message);
Status FailedPrecondition(std::string message);
Status Aborted(std::string message);
Status OutOfRange(std::string message);
Status Unimplemented(std::string message);
Status InternalError(std::string message);
Status Unavailable(std::string message);
Status DataLoss(std::string message);
Status Unauthenticated(std::string message);

// The message of errno about `what`: "cannot open /x: no such file or directory", with the code
// that fits the number.
Status FromErrno(int error_number, std::string_view what);

// A value, or the reason why there is none.
template <typename T>
class [[nodiscard]] Result {
 public:
  Result(T value) : value_(std::move(value)) {}  // NOLINT: implicit, so that `return value;` works
  Result(Status status) : status_(std::move(status)) { CHECK(!status_.ok()); }  // NOLINT

  bool ok() const { return value_.has_value(); }
  const Status& status() const { return status_; }

  // The value. Requires ok().
  T& value() & { return Checked(); }
  const T& value() const& { return Checked(); }
  T value() && { return std::move(Checked()); }  // by value, so that a reference to it lives
  T& operator*() & { return Checked(); }
  const T& operator*() const& { return Checked(); }
  T operator*() && { return std::move(Checked()); }
  T* operator->() { return &Checked(); }
  const T* operator->() const { return &Checked(); }

 private:
  T& Checked() {
    CHECK(value_.has_value()) << status_.message();
    return *value_;
  }
  const T& Checked() const {
    CHECK(value_.has_value()) << status_.message();
    return *value_;
  }

  Status status_;
  std::optional<T> value_;
};

#define RETURN_IF_ERROR(expression)                                     \
  do {                                                                  \
    if (::longhaul::Status lh_status = (expression); !lh_status.ok()) { \
      return lh_status;                                                 \
    }                                                                   \
  } while (false)

#define LH_CONCAT_INNER(a, b) a##b
#define LH_CONCAT(a, b) LH_CONCAT_INNER(a, b)
#define ASSIGN_OR_RETURN(target, expression) \
  ASSIGN_OR_RETURN_IMPL(LH_CONCAT(lh_result_, __LINE__), target, expression)
#define ASSIGN_OR_RETURN_IMPL(result, target, expression) \
  auto result = (expression);                             \
  if (!result.ok()) return result.status();               \
  target = std::move(result).value()

}  // namespace longhaul
