#include "service/controller/rest/changes/what_if_request.h"

#include <array>
#include <string>
#include <utility>

#include "base/text.h"
#include "service/controller/rest/request_body.h"

namespace longhaul::service {
namespace {

using Json = nlohmann::ordered_json;
using runtime::scheduling::WhatIfChange;
using runtime::scheduling::WhatIfEffect;
using runtime::scheduling::WhatIfRow;

constexpr size_t kMostWhatIfChanges = 100;
constexpr Duration kLongestHorizon = std::chrono::hours(24 * 366);

// A job to submit goes through the parser of POST /v1/jobs, so both accept the same. It is only a
// sketch: no data are prepared for it.
Result<WhatIfRequest::Change> ParseWhatIfChange(const Json& json) {
  static constexpr std::array<std::string_view, 3> kKeys = {"submit", "source", "name"};
  WhatIfRequest::Change parsed;
  if (json.is_string()) {
    ASSIGN_OR_RETURN(parsed.change,
                     runtime::scheduling::ParseWhatIfChange(json.get_ref<const std::string&>()));
    if (parsed.change.kind != WhatIfChange::Kind::kSubmit) return parsed;
    return InvalidArgument("a job to submit is an object: {\"submit\": \"the job file's text\"}");
  }
  if (!json.is_object() || !json.contains("submit")) {
    return InvalidArgument("a change is a text, or an object with \"submit\"");
  }
  RETURN_IF_ERROR(RefuseUnknown(json, kKeys));
  Json submission = json;
  submission.erase("submit");
  submission["job"] = json["submit"];
  ASSIGN_OR_RETURN(parsed.submission, ParseSubmissionRequest(submission.dump()));
  parsed.submission->sketch = true;
  parsed.change.kind = WhatIfChange::Kind::kSubmit;
  parsed.change.subject = parsed.submission->source;
  return parsed;
}

// What is reported of a row, for people.
std::string SentenceOf(const WhatIfRow& row, Instant now) {
  const auto when = [now](const std::optional<Instant>& at) {
    if (!at) return std::string("not within the horizon");
    return *at == now ? std::string("now") : "in " + ToString(*at - now);
  };
  switch (row.effect) {
    case WhatIfEffect::kCannotRun:
      return "cannot run any more: " + row.reason;
    case WhatIfEffect::kNotInTime:
      return "does not start within the horizon; without the change it starts " + when(row.before);
    case WhatIfEffect::kStopped:
      return "is stopped " + when(row.after) + " and continues " + when(row.resumes);
    case WhatIfEffect::kMoved:
      return "moves to other nodes " + when(row.after);
    case WhatIfEffect::kShrunk:
      return "continues with fewer nodes " + when(row.after);
    case WhatIfEffect::kStartsLater:
      return "starts later: " + when(row.after) + ", without the change " + when(row.before);
    case WhatIfEffect::kStartsNow:
      return "starts now; without the change it starts " + when(row.before);
    case WhatIfEffect::kStartsEarlier:
      return "starts earlier: " + when(row.after) + ", without the change " + when(row.before);
    case WhatIfEffect::kEndsLater:
      return "ends later: " + when(row.after) + ", without the change " + when(row.before);
    case WhatIfEffect::kEndsEarlier:
      return "ends earlier: " + when(row.after) + ", without the change " + when(row.before);
    case WhatIfEffect::kNew:
      return "starts " + when(row.after);
  }
  return "";
}

}  // namespace

Result<WhatIfRequest> ParseWhatIf(std::string_view body) {
  static constexpr std::array<std::string_view, 2> kKeys = {"changes", "horizon"};
  ASSIGN_OR_RETURN(const Json json, ParseObject(body));
  RETURN_IF_ERROR(RefuseUnknown(json, kKeys));
  WhatIfRequest request;
  const auto changes = json.find("changes");
  if (changes == json.end() || !changes->is_array() || changes->empty() ||
      changes->size() > kMostWhatIfChanges) {
    return InvalidArgument("\"changes\" must be a list of 1 to " +
                           std::to_string(kMostWhatIfChanges) + " changes");
  }
  for (const Json& each : *changes) {
    auto change = ParseWhatIfChange(each);
    if (!change.ok()) {
      return change.status().WithContext("change " + std::to_string(request.changes.size() + 1));
    }
    request.changes.push_back(*std::move(change));
  }
  std::string horizon;
  RETURN_IF_ERROR(TakeText(json, "horizon", horizon));
  if (horizon.empty()) return request;
  const Result<Duration> length = ParseDuration(horizon);
  if (!length.ok() || *length <= Duration(0) || *length > kLongestHorizon) {
    return InvalidArgument("\"horizon\": '" + Printable(horizon, 40) +
                           "' is not a time such as 24h, above zero and at most 366d");
  }
  request.horizon = *length;
  return request;
}

Json ToJson(const runtime::scheduling::WhatIfAnswer& answer) {
  const auto at = [](const std::optional<Instant>& instant) {
    return instant ? Json(ToNanoseconds(*instant)) : Json();
  };
  Json jobs = Json::array();
  for (const WhatIfRow& row : answer.rows) {
    Json job = {{"job", row.job},
                {"effect", runtime::scheduling::NameOf(row.effect)},
                {"before_ns", at(row.before)},
                {"after_ns", at(row.after)},
                {"sentence", SentenceOf(row, answer.now)}};
    if (row.effect == WhatIfEffect::kStopped) job["resumes_ns"] = at(row.resumes);
    jobs.push_back(std::move(job));
  }
  return {{"now_ns", ToNanoseconds(answer.now)},
          {"until_ns", ToNanoseconds(answer.until)},
          {"cut", answer.cut},
          {"rounds", answer.rounds},
          {"compared", answer.jobs},
          {"jobs", std::move(jobs)},
          {"unknown_durations", answer.unknown}};
}

}  // namespace longhaul::service
