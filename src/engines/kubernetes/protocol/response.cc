#include "engines/kubernetes/protocol/response.h"

#include <algorithm>

#include "base/text.h"

namespace longhaul::engines::kubernetes {
namespace {

constexpr size_t kMaxMessage = 500;

std::optional<Duration> RetryAfter(std::string_view header, const ApiStatus& details) {
  // The other form of the header, a date, is not used by the API server.
  const Result<int64_t> seconds = ParseInt64(Trim(header));
  const int64_t wanted = seconds.ok() ? *seconds : details.retry_after_seconds;
  if (wanted <= 0) return std::nullopt;
  const int64_t longest =
      std::chrono::seconds(std::chrono::duration_cast<std::chrono::seconds>(kLongestRetryAfter))
          .count();
  return std::chrono::seconds(std::min(wanted, longest));
}

// The rule of a Role that permits the call.
std::string MissingRule(const Call& call) {
  const std::string subresource = call.subresource.empty() ? "" : "/" + call.subresource;
  return "the account lacks the rule {apiGroups: [\"" + call.resource.group +
         "\"], resources: [\"" + call.resource.plural + subresource + "\"], verbs: [\"" +
         call.verb + "\"]}" +
         (call.object.namespace_name.empty() ? "" : " in namespace " + call.object.namespace_name);
}

Outcome OutcomeOf(const Call& call, int http_status, const ApiStatus& details) {
  switch (http_status) {
    case 401:
      return Outcome::kUnauthenticated;
    case 403:
      return Outcome::kForbidden;
    case 404:
      return Outcome::kNotFound;
    // The prose of a conflict differs from release to release, so that only the reason and the
    // causes are read. What a refused bind means is read from the pod.
    case 409:
      if (details.reason == "AlreadyExists") return Outcome::kAlreadyExists;
      return details.HasCause("FieldManagerConflict") ? Outcome::kApplyConflict
                                                      : Outcome::kConflict;
    case 410:
      return Outcome::kGone;
    case 400:
    case 405:
    case 413:
    case 415:
    case 422:
      return Outcome::kInvalid;
    case 429:
      return call.subresource == "eviction" && details.HasCause("DisruptionBudget")
                 ? Outcome::kDisruptionBudget
                 : Outcome::kRetry;
    // Sent by the server before it has begun, and by a proxy without a server.
    case 503:
      return Outcome::kRetry;
    default:
      break;
  }
  // Some internal errors (ServerTimeout) may be repeated, too: they come with a delay.
  return http_status >= 500 && details.retry_after_seconds > 0 ? Outcome::kRetry : Outcome::kFailed;
}

Code CodeOf(Outcome outcome) {
  switch (outcome) {
    case Outcome::kDone:
      return Code::kOk;
    case Outcome::kRetry:
    case Outcome::kUnreachable:
      return Code::kUnavailable;
    case Outcome::kUnauthenticated:
      return Code::kUnauthenticated;
    case Outcome::kForbidden:
      return Code::kPermissionDenied;
    case Outcome::kNotFound:
      return Code::kNotFound;
    case Outcome::kGone:
      return Code::kOutOfRange;
    case Outcome::kAlreadyExists:
      return Code::kAlreadyExists;
    case Outcome::kConflict:
    case Outcome::kApplyConflict:
      return Code::kAborted;
    case Outcome::kDisruptionBudget:
      return Code::kFailedPrecondition;
    case Outcome::kInvalid:
      return Code::kInvalidArgument;
    case Outcome::kFailed:
      return Code::kInternal;
  }
  return Code::kInternal;
}

}  // namespace

std::string_view ToString(Outcome outcome) {
  switch (outcome) {
    case Outcome::kDone:
      return "done";
    case Outcome::kRetry:
      return "retry";
    case Outcome::kUnauthenticated:
      return "unauthenticated";
    case Outcome::kForbidden:
      return "forbidden";
    case Outcome::kNotFound:
      return "not found";
    case Outcome::kGone:
      return "gone";
    case Outcome::kAlreadyExists:
      return "already exists";
    case Outcome::kConflict:
      return "conflict";
    case Outcome::kApplyConflict:
      return "apply conflict";
    case Outcome::kDisruptionBudget:
      return "disruption budget";
    case Outcome::kInvalid:
      return "invalid";
    case Outcome::kUnreachable:
      return "unreachable";
    case Outcome::kFailed:
      return "failed";
  }
  return "unknown";
}

Verdict Judge(const Call& call, int http_status, std::string_view retry_after_header,
              const ApiStatus& details) {
  // 202 is an answer to a deletion that waits for finalizers.
  if (http_status / 100 == 2) return {};
  Verdict verdict;
  verdict.outcome = OutcomeOf(call, http_status, details);
  verdict.retry_after = RetryAfter(retry_after_header, details);
  std::string message = call.Text() + ": HTTP " + std::to_string(http_status);
  if (!details.reason.empty()) message += " " + Printable(details.reason);
  if (!details.message.empty()) message += ": " + Printable(details.message, kMaxMessage);
  // Of RBAC: 'User "x" cannot create resource "pods"'. Quotas and Pod Security refuse with 403,
  // too.
  const std::string& told = details.message;
  const bool by_rights = told.empty() || told.find(" cannot ") != std::string::npos;
  if (verdict.outcome == Outcome::kForbidden && by_rights) message += "; " + MissingRule(call);
  if (verdict.outcome == Outcome::kUnauthenticated) {
    message += "; the API server does not accept the credentials, check the token or certificate";
  }
  verdict.status = Status(CodeOf(verdict.outcome), std::move(message));
  return verdict;
}

Verdict Unreachable(const Call& call, const Status& why) {
  Verdict verdict;
  verdict.outcome = Outcome::kUnreachable;
  verdict.status = Status(why.code(), why.message()).WithContext(call.Text());
  return verdict;
}

}  // namespace longhaul::engines::kubernetes
