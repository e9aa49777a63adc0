#include "engines/kubernetes/protocol/objects/json_fields.h"

#include <limits>

#include "base/text.h"

namespace longhaul::engines::kubernetes {

JsonParser::JsonParser() : impl_(std::make_unique<Impl>()) {}
JsonParser::~JsonParser() = default;

std::string JsonPlace::Text() const {
  std::string text = outer != nullptr ? outer->Text() : std::string();
  if (outer != nullptr && key.empty()) return text + "[" + std::to_string(index) + "]";
  // A key comes from outside and may be long.
  constexpr size_t kMaxKey = 100;
  if (!text.empty()) text += ".";
  return text + Printable(key, kMaxKey);
}

Status WrongType(const JsonPlace& place, std::string_view expected) {
  return InvalidArgument(place.Text() + " has the wrong type, expected " + std::string(expected));
}

Status Malformed(const JsonPlace& place, simdjson::error_code error) {
  return InvalidArgument("the JSON of " + place.Text() +
                         " is malformed: " + simdjson::error_message(error));
}

Result<bool> IsNull(JsonValue& value, const JsonPlace& place) {
  // The type is read from the first character. What follows is checked when the value is read.
  simdjson::ondemand::json_type type{};
  if (const auto error = value.type().get(type); error) return Malformed(place, error);
  return type == simdjson::ondemand::json_type::null;
}

Result<std::string_view> TextOf(JsonValue value, const JsonPlace& place) {
  ASSIGN_OR_RETURN(const bool null, IsNull(value, place));
  std::string_view text;
  if (null) return text;
  if (const auto error = value.get_string().get(text); error) {
    return error == simdjson::INCORRECT_TYPE ? WrongType(place, "a string")
                                             : Malformed(place, error);
  }
  return text;
}

Status ReadString(JsonValue value, const JsonPlace& place, std::string* out) {
  ASSIGN_OR_RETURN(const std::string_view text, TextOf(value, place));
  out->assign(text);
  return Status();
}

Status ReadBool(JsonValue value, const JsonPlace& place, bool* out) {
  ASSIGN_OR_RETURN(const bool null, IsNull(value, place));
  if (null) return Status();
  if (value.get_bool().get(*out)) return WrongType(place, "true or false");
  return Status();
}

Status ReadInt64(JsonValue value, const JsonPlace& place, int64_t* out) {
  ASSIGN_OR_RETURN(const bool null, IsNull(value, place));
  if (null) return Status();
  if (value.get_int64().get(*out)) return WrongType(place, "a whole number of 64 bits");
  return Status();
}

Status ReadInt32(JsonValue value, const JsonPlace& place, int32_t* out) {
  // A null leaves the number as it was.
  int64_t number = *out;
  RETURN_IF_ERROR(ReadInt64(value, place, &number));
  if (number < std::numeric_limits<int32_t>::min() ||
      number > std::numeric_limits<int32_t>::max()) {
    return WrongType(place, "a whole number of 32 bits");
  }
  *out = static_cast<int32_t>(number);
  return Status();
}

Result<std::string_view> RawObject(JsonValue value, const JsonPlace& place) {
  simdjson::ondemand::object object;
  if (const auto error = value.get_object().get(object); error) {
    return error == simdjson::INCORRECT_TYPE ? WrongType(place, "an object")
                                             : Malformed(place, error);
  }
  std::string_view raw;
  if (const auto error = object.raw_json().get(raw); error) return Malformed(place, error);
  return raw;
}

}  // namespace longhaul::engines::kubernetes
