#include "service/controller/plan/plan_request.h"

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <string>

#include "base/text.h"
#include "service/controller/rest/request_body.h"
#include "spec/cluster/device.h"
#include "spec/model/model_reader.h"

namespace longhaul::service {
namespace {

using Json = nlohmann::ordered_json;

constexpr uint64_t kMostPlannedDevices = 1 << 20;
constexpr uint64_t kMostSequences = 1'000'000'000;  // the limits of `longhaul plan`
constexpr uint64_t kMostTokensInSequence = uint64_t{1} << 27;
constexpr double kLongestSearch = 120;  // seconds
constexpr size_t kLongestOption = 200;
constexpr std::string_view kFurther = "_.,=:+@-";  // beside letters and digits

// Reads a whole number from 1 to `most`, if the object has the key.
Status TakeNumber(const Json& json, const char* key, uint64_t most, uint64_t& target) {
  const auto found = json.find(key);
  if (found == json.end() || found->is_null()) return {};
  if (!found->is_number_unsigned() || found->get<uint64_t>() < 1 || found->get<uint64_t>() > most) {
    return InvalidArgument("\"" + std::string(key) + "\" must be a whole number from 1 to " +
                           WithThousands(static_cast<int64_t>(most)));
  }
  target = found->get<uint64_t>();
  return {};
}

// Reads the text of an option. The planner checks what it means; here only what could be anything
// else than the value of one option is refused.
Status TakeOption(const Json& json, const char* key, std::string& target) {
  RETURN_IF_ERROR(TakeText(json, key, target));
  const auto allowed = [](char letter) {
    return (letter >= '0' && letter <= '9') || (letter >= 'a' && letter <= 'z') ||
           (letter >= 'A' && letter <= 'Z') || kFurther.find(letter) != std::string_view::npos;
  };
  if (target.size() <= kLongestOption && std::all_of(target.begin(), target.end(), allowed)) {
    return {};
  }
  return InvalidArgument("\"" + std::string(key) + "\" must have at most " +
                         std::to_string(kLongestOption) + " letters, digits and characters of " +
                         std::string(kFurther) + ", not \"" + Printable(target, 80) + "\"");
}

Status TakeModel(const Json& json, PlanRequest& request) {
  RETURN_IF_ERROR(TakeText(json, "model", request.model));
  // Longer than other texts: a config.json may have a list of its layers.
  if (const auto found = json.find("model_text"); found != json.end() && !found->is_null()) {
    if (!found->is_string()) return InvalidArgument("\"model_text\" must be a text");
    request.model_text = found->get<std::string>();
  }
  if (request.model.empty() == request.model_text.empty()) {
    return InvalidArgument(
        "one of \"model\", the name of a shipped model, and \"model_text\", the text of a model "
        "file, is needed");
  }
  if (!request.model.empty()) return spec::FindModel(request.model).status();
  return spec::ParseModel(request.model_text, "model").status();
}

}  // namespace

Result<PlanRequest> ParsePlanRequest(std::string_view body) {
  static constexpr std::string_view kKnown[] = {"model",     "model_text", "device", "devices",
                                                "batch",     "sequence",   "tokens", "precision",
                                                "framework", "fix",        "seconds"};
  ASSIGN_OR_RETURN(const Json json, ParseObject(body));
  RETURN_IF_ERROR(RefuseUnknown(json, kKnown));
  PlanRequest request;
  RETURN_IF_ERROR(TakeModel(json, request));
  RETURN_IF_ERROR(TakeText(json, "device", request.device));
  if (request.device.empty()) {
    return InvalidArgument("\"device\", the name of an accelerator, is missing");
  }
  RETURN_IF_ERROR(spec::FindDevice(request.device).status());
  uint64_t devices = 0;
  RETURN_IF_ERROR(TakeNumber(json, "devices", kMostPlannedDevices, devices));
  if (devices == 0) {
    return InvalidArgument("\"devices\", the number of accelerators, is missing");
  }
  request.devices = static_cast<uint32_t>(devices);
  RETURN_IF_ERROR(TakeNumber(json, "batch", kMostSequences, request.batch));
  RETURN_IF_ERROR(TakeNumber(json, "sequence", kMostTokensInSequence, request.sequence));
  RETURN_IF_ERROR(TakeOption(json, "tokens", request.tokens));
  RETURN_IF_ERROR(TakeOption(json, "precision", request.precision));
  RETURN_IF_ERROR(TakeOption(json, "framework", request.framework));
  RETURN_IF_ERROR(TakeOption(json, "fix", request.fix));
  if (const auto found = json.find("seconds"); found != json.end() && !found->is_null()) {
    const double seconds = found->is_number() ? found->get<double>() : 0;
    if (!(seconds >= 1 && seconds <= kLongestSearch)) {
      return InvalidArgument("\"seconds\" must be a number from 1 to " +
                             std::to_string(std::lround(kLongestSearch)));
    }
    request.limit = std::chrono::milliseconds(std::lround(seconds * 1e3));
  }
  return request;
}

std::vector<std::string> PlannerArguments(const PlanRequest& request) {
  std::vector<std::string> words = {request.model.empty() ? "/dev/stdin" : request.model,
                                    request.device + ":" + std::to_string(request.devices)};
  // As one word each, so that a value is never taken for another option.
  const auto add = [&words](const char* option, const std::string& value) {
    if (!value.empty()) words.push_back("--" + std::string(option) + "=" + value);
  };
  const auto number = [](uint64_t value) {
    return value == 0 ? std::string() : std::to_string(value);
  };
  add("batch", number(request.batch));
  add("sequence", number(request.sequence));
  add("tokens", request.tokens);
  add("precision", request.precision);
  add("framework", request.framework);
  add("fix", request.fix);
  return words;
}

}  // namespace longhaul::service
