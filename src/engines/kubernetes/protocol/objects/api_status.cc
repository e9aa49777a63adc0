#include "engines/kubernetes/protocol/objects/api_status.h"

#include <algorithm>

#include "engines/kubernetes/protocol/objects/json_fields.h"

namespace longhaul::engines::kubernetes {
namespace {

Status ReadCause(JsonValue value, const JsonPlace& place, ApiStatus* status) {
  ApiStatus::Cause& cause = status->causes.emplace_back();
  return ForEachField(
      value, place, [&cause](std::string_view key, JsonValue field, const JsonPlace& at) -> Status {
        if (key == "reason") return ReadString(field, at, &cause.reason);
        if (key == "field") return ReadString(field, at, &cause.field);
        if (key == "message") return ReadString(field, at, &cause.message);
        return Status();
      });
}

Status ReadDetail(std::string_view key, JsonValue value, const JsonPlace& place,
                  ApiStatus* status) {
  if (key == "retryAfterSeconds") return ReadInt64(value, place, &status->retry_after_seconds);
  if (key != "causes") return Status();
  return ForEachElement(value, place, [status](JsonValue element, const JsonPlace& at) {
    return ReadCause(element, at, status);
  });
}

}  // namespace

bool ApiStatus::HasCause(std::string_view cause_reason) const {
  return std::any_of(causes.begin(), causes.end(),
                     [&](const Cause& cause) { return cause.reason == cause_reason; });
}

Result<ApiStatus> ReadApiStatus(JsonParser& parser, PaddedText json) {
  ApiStatus status;
  RETURN_IF_ERROR(ReadObject(
      parser, json, JsonPlace{nullptr, "status"},
      [&status](std::string_view key, JsonValue value, const JsonPlace& at) -> Status {
        if (key == "code") return ReadInt32(value, at, &status.code);
        if (key == "reason") return ReadString(value, at, &status.reason);
        if (key == "message") return ReadString(value, at, &status.message);
        if (key == "details") {
          return ForEachField(value, at,
                              [&](std::string_view name, JsonValue field, const JsonPlace& place) {
                                return ReadDetail(name, field, place, &status);
                              });
        }
        return Status();
      }));
  return status;
}

}  // namespace longhaul::engines::kubernetes
