// What a response of the API server means for the caller.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "base/status.h"
#include "base/time.h"
#include "engines/kubernetes/protocol/call.h"
#include "engines/kubernetes/protocol/objects/api_status.h"

namespace longhaul::engines::kubernetes {

enum class Outcome {
  kDone,
  // The server did not execute the request and may do so later: 429, 503, some 500.
  kRetry,
  kUnauthenticated,   // 401: read the credentials again, once
  kForbidden,         // 403: the status names the missing rule
  kNotFound,          // 404
  kGone,              // 410: the version or the continue token has expired, list again
  kAlreadyExists,     // 409 for a name that is in use
  kConflict,          // 409: a precondition failed, or the pod is bound, gated or being deleted
  kApplyConflict,     // 409: another manager owns fields of an apply
  kDisruptionBudget,  // 429 of an eviction: the disruption budget permits none now
  kInvalid,           // 400, 405, 413, 415, 422: a bug or a user's error, never repeated
  kUnreachable,       // no response; a write may have been executed
  kFailed,            // every other status
};
std::string_view ToString(Outcome outcome);

struct Verdict {
  Outcome outcome = Outcome::kDone;
  Status status;                        // ok for kDone; otherwise for people
  std::optional<Duration> retry_after;  // what the server requested, at most kLongestRetryAfter
};

constexpr Duration kLongestRetryAfter = std::chrono::minutes(5);

// Judges a response. `retry_after_header` is the value of Retry-After, empty without one; `details`
// is the Status of the body, empty where the body was none.
Verdict Judge(const Call& call, int http_status, std::string_view retry_after_header,
              const ApiStatus& details);

// The verdict on a request without a response, for the reason `why`.
Verdict Unreachable(const Call& call, const Status& why);

}  // namespace longhaul::engines::kubernetes
