#include "base/status.h"

#include <cerrno>
#include <cstring>

namespace longhaul {

std::string_view ToString(Code code) {
  switch (code) {
    case Code::kOk:
      return "ok";
    case Code::kCancelled:
      return "cancelled";
    case Code::kUnknown:
      return "unknown";
    case Code::kInvalidArgument:
      return "invalid argument";
    case Code::kDeadlineExceeded:
      return "deadline exceeded";
    case Code::kNotFound:
      return "not found";
    case Code::kAlreadyExists:
      return "already exists";
    case Code::kPermissionDenied:
      return "permission denied";
    case Code::kResourceExhausted:
      return "resource exhausted";
    case Code::kFailedPrecondition:
      return "failed precondition";
    case Code::kAborted:
      return "aborted";
    case Code::kOutOfRange:
      return "out of range";
    case Code::kUnimplemented:
      return "unimplemented";
    case Code::kInternal:
      return "internal";
    case Code::kUnavailable:
      return "unavailable";
    case Code::kDataLoss:
      return "data loss";
    case Code::kUnauthenticated:
      return "unauthenticated";
  }
  return "unknown";
}

Status::Status(Code code, std::string message) : code_(code), message_(std::move(message)) {
  CHECK(code != Code::kOk) << "an ok status has no message";
}

Status Status::WithContext(std::string_view context) const {
  CHECK(!ok());
  return Status(code_, std::string(context) + ": " + message_);
}

std::string ToString(const Status& status) {
  if (status.ok()) return "ok";
  return std::string(ToString(status.code())) + ": " + status.message();
}

std::ostream& operator<<(std::ostream& out, const Status& status) {
  return out << ToString(status);
}

Status CancelledError(std::string message) { return {Code::kCancelled, std::move(message)}; }
Status InvalidArgument(std::string message) { return {Code::kInvalidArgument, std::move(message)}; }
Status DeadlineExceeded(std::string message) {
  return {Code::kDeadlineExceeded, std::move(message)};
}
Status NotFound(std::string message) { return {Code::kNotFound, std::move(message)}; }
Status AlreadyExists(std::string message) { return {Code::kAlreadyExists, std::move(message)}; }
Status PermissionDenied(std::string message) {
  return {Code::kPermissionDenied, std::move(message)};
}
Status ResourceExhausted(std::string message) {
  return {Code::kResourceExhausted, std::move(message)};
}
Status FailedPrecondition(std::string message) {
  return {Code::kFailedPrecondition, std::move(message)};
}
Status Aborted(std::string message) { return {Code::kAborted, std::move(message)}; }
Status OutOfRange(std::string message) { return {Code::kOutOfRange, std::move(message)}; }
Status Unimplemented(std::string message) { return {Code::kUnimplemented, std::move(message)}; }
Status InternalError(std::string message) { return {Code::kInternal, std::move(message)}; }
Status Unavailable(std::string message) { return {Code::kUnavailable, std::move(message)}; }
Status DataLoss(std::string message) { return {Code::kDataLoss, std::move(message)}; }
Status Unauthenticated(std::string message) { return {Code::kUnauthenticated, std::move(message)}; }

namespace {

Code CodeOfErrno(int error_number) {
  switch (error_number) {
    case ENOENT:
    case ESRCH:
      return Code::kNotFound;
    case EEXIST:
    case EADDRINUSE:
      return Code::kAlreadyExists;
    case EACCES:
    case EPERM:
    case EROFS:
      return Code::kPermissionDenied;
    case ENOSPC:
    case ENOMEM:
    case EMFILE:
    case ENFILE:
    case EDQUOT:
    case EFBIG:
      return Code::kResourceExhausted;
    case EINVAL:
    case EISDIR:
    case ENOTDIR:
    case ENAMETOOLONG:
    case ELOOP:
      return Code::kInvalidArgument;
    case ENOTEMPTY:
    case ETXTBSY:
      return Code::kFailedPrecondition;
    case EIO:
      return Code::kDataLoss;
    case ETIMEDOUT:
      return Code::kDeadlineExceeded;
    case ECONNREFUSED:
    case ECONNRESET:
    case ECONNABORTED:
    case ENOTCONN:
    case EHOSTUNREACH:
    case ENETUNREACH:
    case EBUSY:
    case EPIPE:
    case EAGAIN:
      return Code::kUnavailable;
    default:
      return Code::kUnknown;
  }
}

}  // namespace

Status FromErrno(int error_number, std::string_view what) {
  char text[256] = "";
  std::string words = strerror_r(error_number, text, sizeof(text));
  // "No such file" -> "no such file", but "RPC failed" stays.
  const bool one_capital = words.size() >= 2 && words[1] >= 'a' && words[1] <= 'z';
  if (one_capital && words[0] >= 'A' && words[0] <= 'Z') {
    words[0] = static_cast<char>(words[0] - 'A' + 'a');
  }
  return Status(CodeOfErrno(error_number), std::string(what) + ": " + words);
}

}  // namespace longhaul
