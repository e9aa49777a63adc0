#include "engines/kubernetes/protocol/event_call.h"

#include <cstdio>

#include "base/check.h"
#include "base/hash.h"
#include "base/text.h"

namespace longhaul::engines::kubernetes {
namespace {

using Json = nlohmann::ordered_json;

constexpr size_t kMostNote = 1'000;      // the API refuses more than 1,024 bytes
constexpr size_t kMostObjectName = 200;  // of an event's name, which has at most 253 bytes

Resource Events() { return {"events.k8s.io", "v1", "events", true}; }

std::string TextOf(const Json& object) {
  return object.dump(-1, ' ', false, Json::error_handler_t::replace);
}

std::string MicroTime(std::string_view time) {
  return std::string(time.substr(0, 19)) + ".000000Z";
}

}  // namespace

std::string EventName(std::string_view object, std::string_view identity) {
  char number[17] = {};
  std::snprintf(number, sizeof number, "%016llx",
                static_cast<unsigned long long>(Hash64(identity, 0)));
  return std::string(object.substr(0, kMostObjectName)) + "." + number;
}

Json EventJson(const EventFields& event, std::string_view time) {
  const EventObject& of = event.regarding;
  Json regarding = {{"apiVersion", of.api_version}, {"kind", of.kind}};
  if (!of.namespace_name.empty()) regarding["namespace"] = of.namespace_name;
  regarding["name"] = of.name;
  regarding["uid"] = of.uid;
  const std::string& place = of.namespace_name.empty() ? "default" : of.namespace_name;
  return {{"apiVersion", "events.k8s.io/v1"},
          {"kind", "Event"},
          {"metadata", {{"name", event.name}, {"namespace", place}}},
          {"eventTime", MicroTime(time)},
          {"reportingController", event.controller},
          {"reportingInstance", event.instance},
          {"action", event.action},
          {"reason", event.reason},
          {"regarding", std::move(regarding)},
          {"note", Printable(event.note, kMostNote)},
          {"type", event.warning ? "Warning" : "Normal"}};
}

Result<Call> CreateEventCall(const Json& event) {
  return CreateCall(Events(), event.at("metadata").at("namespace").get<std::string>(),
                    TextOf(event));
}

Result<Call> ContinueEventCall(const ObjectName& event, int32_t count, std::string_view time) {
  CHECK(count >= 2) << "an event that was observed once is no series";
  const Json series = {{"count", count}, {"lastObservedTime", MicroTime(time)}};
  return PatchCall(Events(), event, "", PatchKind::kMerge, TextOf({{"series", series}}));
}

}  // namespace longhaul::engines::kubernetes
