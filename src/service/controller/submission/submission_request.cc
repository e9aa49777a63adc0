#include "service/controller/submission/submission_request.h"

#include <array>

#include "base/text.h"
#include "service/controller/rest/request_body.h"
#include "spec/job/job_name.h"

namespace longhaul::service {
namespace {

using Json = nlohmann::ordered_json;

}  // namespace

Result<SubmissionRequest> ParseSubmissionRequest(std::string_view body) {
  static constexpr std::array<std::string_view, 7> kKeys = {
      "job", "source", "name", "run_directory", "from", "inject", "resume"};
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
