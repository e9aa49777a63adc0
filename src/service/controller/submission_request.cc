#include "service/controller/submission_request.h"

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>
#include <optional>
#include <span>

#include "base/text.h"

namespace longhaul::service {
namespace {

using Json = nlohmann::ordered_json;

constexpr int kDeepest = 64;  // printing a document is recursive
constexpr size_t kLongestText = 4096;

// Whether brackets nest deeper than kDeepest. Counts without parsing: wrong nesting is the
// parser's.
bool TooDeep(std::string_view text) {
  int depth = 0;
  bool quoted = false;
  for (size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (quoted) {
      if (c == '\\') ++i;
      if (c == '"') quoted = false;
    } else if (c == '"') {
      quoted = true;
    } else if (c == '{' || c == '[') {
      if (++depth > kDeepest) return true;
    } else if (c == '}' || c == ']') {
      --depth;
    }
  }
  return false;
}

std::string PositionOf(std::string_view text, size_t byte) {
  const std::string_view before = text.substr(0, byte == 0 ? 0 : byte - 1);
  const auto line = 1 + std::count(before.begin(), before.end(), '\n');
  const size_t start = before.rfind('\n') == std::string_view::npos ? 0 : before.rfind('\n') + 1;
  return "line " + std::to_string(line) + ", column " + std::to_string(before.size() - start + 1);
}

Result<Json> ParseObject(std::string_view body) {
  if (TooDeep(body)) {
    return InvalidArgument("the body nests deeper than " + std::to_string(kDeepest) + " levels");
  }
  try {
    Json json = Json::parse(body);
    if (!json.is_object()) return InvalidArgument("the body must be a JSON object");
    return json;
  } catch (const Json::parse_error& error) {
    return InvalidArgument("the body is not JSON: at " + PositionOf(body, error.byte) + " near \"" +
                           Printable(body.substr(std::min(body.size(), error.byte), 20)) + "\"");
  } catch (const Json::exception& error) {  // a number out of range
    return InvalidArgument("the body is not usable JSON: " + Printable(error.what()));
  }
}

Status RefuseUnknown(const Json& json, std::span<const std::string_view> known) {
  for (const auto& [key, value] : json.items()) {
    if (std::find(known.begin(), known.end(), key) != known.end()) continue;
    const std::optional<std::string_view> meant = Nearest(key, known);
    return InvalidArgument(
        "unknown key \"" + Printable(key) + "\"" +
        (meant.has_value() ? " (did you mean \"" + std::string(*meant) + "\"?)" : std::string()));
  }
  return Status();
}

Status TakeText(const Json& json, const char* key, std::string& target) {
  const auto found = json.find(key);
  if (found == json.end() || found->is_null()) return Status();
  if (!found->is_string()) return InvalidArgument("\"" + std::string(key) + "\" must be a text");
  target = found->get<std::string>();
  if (target.size() > kLongestText || target.find('\0') != std::string::npos) {
    return InvalidArgument("\"" + std::string(key) + "\" is too long or holds a zero byte");
  }
  return Status();
}

}  // namespace

Result<SubmissionRequest> ParseSubmissionRequest(std::string_view body) {
  static constexpr std::array<std::string_view, 6> kKeys = {"job",           "source", "name",
                                                            "run_directory", "inject", "resume"};
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
  RETURN_IF_ERROR(TakeText(json, "run_directory", request.run_directory));
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
