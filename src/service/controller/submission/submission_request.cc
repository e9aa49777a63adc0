#include "service/controller/submission/submission_request.h"

#include <algorithm>
#include <array>

#include "base/text.h"
#include "service/controller/rest/request_body.h"
#include "spec/job/job_name.h"

namespace longhaul::service {
namespace {

using Json = nlohmann::ordered_json;

// Directories of users have names such as ada, ada@example.org, EXAMPLE\\ada and svc$.
Status CheckUser(const std::string& user) {
  constexpr size_t kLongestUser = 63;
  const auto allowed = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
           std::string_view("-_.@+$\\").find(c) != std::string_view::npos;
  };
  if (user.size() <= kLongestUser && std::all_of(user.begin(), user.end(), allowed)) return {};
  return InvalidArgument("\"user\": '" + Printable(user, 70) +
                         "' is not a user's name: at most 63 letters, digits and -_.@+$\\");
}

}  // namespace

Result<SubmissionRequest> ParseSubmissionRequest(std::string_view body) {
  static constexpr std::array<std::string_view, 8> kKeys = {
      "job", "source", "name", "run_directory", "from", "inject", "resume", "user"};
  ASSIGN_OR_RETURN(const Json json, ParseObject(body));
  RETURN_IF_ERROR(RefuseUnknown(json, kKeys));
  SubmissionRequest request;
  const auto job = json.find("job");
  if (job == json.end())
    return InvalidArgument("\"job\" is missing: the job file's text or object");
  if (job->is_string()) {
    request.job = job->get<std::string>();
  } else if (job->is_object()) {
    request.job = job->dump();  // JSON is YAML
  } else {
    return InvalidArgument("\"job\" must be the job file's text or an object");
  }
  RETURN_IF_ERROR(TakeText(json, "source", request.source));
  RETURN_IF_ERROR(TakeText(json, "name", request.name));
  if (!request.name.empty()) {
    const Status usable = spec::CheckJobName(request.name);
    if (!usable.ok()) return usable.WithContext("\"name\"");
  }
  RETURN_IF_ERROR(TakeText(json, "user", request.user));
  RETURN_IF_ERROR(CheckUser(request.user));
  RETURN_IF_ERROR(TakeText(json, "run_directory", request.run_directory));
  RETURN_IF_ERROR(TakeText(json, "from", request.from));
  RETURN_IF_ERROR(TakeText(json, "inject", request.inject));
  const auto resume = json.find("resume");
  if (resume != json.end()) {
    if (!resume->is_boolean()) return InvalidArgument("\"resume\" must be true or false");
    request.resume = resume->get<bool>();
  }
  return request;
}

Result<std::string> ParseReason(std::string_view body) {
  static constexpr std::array<std::string_view, 1> kKeys = {"reason"};
  std::string reason;
  if (Trim(body).empty()) return reason;
  ASSIGN_OR_RETURN(const Json json, ParseObject(body));
  RETURN_IF_ERROR(RefuseUnknown(json, kKeys));
  RETURN_IF_ERROR(TakeText(json, "reason", reason));
  return reason;
}

}  // namespace longhaul::service
