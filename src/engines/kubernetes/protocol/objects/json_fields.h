// Reads the fields of a JSON object, with errors that name the field.
//
// For sources of this folder only: the parser's header is large. An absent field and a null are the
// same, as for the API server.
#pragma once

#include <simdjson.h>

#include <concepts>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>

#include "base/status.h"
#include "engines/kubernetes/protocol/objects/json_parser.h"
#include "engines/kubernetes/protocol/objects/padded_text.h"

namespace longhaul::engines::kubernetes {

static_assert(kTextPadding >= simdjson::SIMDJSON_PADDING);

using JsonValue = simdjson::ondemand::value;

struct JsonParser::Impl {
  simdjson::ondemand::parser parser;
  simdjson::ondemand::document document;
};

// The place of a value in its object, linked to the place of what contains it. The text of a place
// is only made for an error.
struct JsonPlace {
  const JsonPlace* outer = nullptr;
  std::string_view key;  // empty: an element of a list
  size_t index = 0;

  // "spec.containers[2].name"
  std::string Text() const;
};

// kInvalidArgument: "spec.priority has the wrong type, expected a whole number".
Status WrongType(const JsonPlace& place, std::string_view expected);
// kInvalidArgument for text that is not JSON.
Status Malformed(const JsonPlace& place, simdjson::error_code error);

// Whether the value is a null.
Result<bool> IsNull(JsonValue& value, const JsonPlace& place);

// Each stores the value, or nothing for a null. Numbers must be whole and in range.
Status ReadString(JsonValue value, const JsonPlace& place, std::string* out);
Status ReadBool(JsonValue value, const JsonPlace& place, bool* out);
Status ReadInt64(JsonValue value, const JsonPlace& place, int64_t* out);
Status ReadInt32(JsonValue value, const JsonPlace& place, int32_t* out);
// The text of a string, valid until the parser's next text; empty for a null.
Result<std::string_view> TextOf(JsonValue value, const JsonPlace& place);
// The JSON of an object as it stands in the text.
Result<std::string_view> RawObject(JsonValue value, const JsonPlace& place);

// Calls visit(key, value, place) -> Status for each field.
template <typename Visit>
Status ForEachFieldOf(simdjson::ondemand::object object, const JsonPlace& place, Visit&& visit) {
  for (auto entry : object) {
    simdjson::ondemand::field field;
    if (const auto error = std::move(entry).get(field); error) return Malformed(place, error);
    std::string_view key;
    if (const auto error = field.unescaped_key().get(key); error) return Malformed(place, error);
    RETURN_IF_ERROR(visit(key, field.value(), JsonPlace{&place, key, 0}));
  }
  return Status();
}

// The same for a value that must be an object or a null.
template <typename Visit>
Status ForEachField(JsonValue value, const JsonPlace& place, Visit&& visit) {
  ASSIGN_OR_RETURN(const bool null, IsNull(value, place));
  if (null) return Status();
  simdjson::ondemand::object object;
  if (value.get_object().get(object)) return WrongType(place, "an object");
  return ForEachFieldOf(object, place, visit);
}

// Calls visit(value, place) -> Status for each element of a list; a null has none.
template <typename Visit>
Status ForEachElement(JsonValue value, const JsonPlace& place, Visit&& visit) {
  ASSIGN_OR_RETURN(const bool null, IsNull(value, place));
  if (null) return Status();
  simdjson::ondemand::array array;
  if (value.get_array().get(array)) return WrongType(place, "a list");
  size_t index = 0;
  for (auto entry : array) {
    JsonValue element;
    // NOLINTNEXTLINE(performance-move-const-arg): get() takes an rvalue only
    if (const auto error = std::move(entry).get(element); error) return Malformed(place, error);
    RETURN_IF_ERROR(visit(element, JsonPlace{&place, {}, index++}));
  }
  return Status();
}

// Parses a text that must be an object, and visits its fields.
template <typename Visit>
Status ReadObject(JsonParser& parser, PaddedText json, const JsonPlace& place, Visit&& visit) {
  JsonParser::Impl& impl = parser.impl();
  const size_t allocated = json.text.size() + kTextPadding;
  if (const auto error =
          impl.parser.iterate(json.text.data(), json.text.size(), allocated).get(impl.document);
      error) {
    return Malformed(place, error);
  }
  simdjson::ondemand::object object;
  if (const auto error = impl.document.get_object().get(object); error) {
    return error == simdjson::INCORRECT_TYPE ? WrongType(place, "an object")
                                             : Malformed(place, error);
  }
  return ForEachFieldOf(object, place, visit);
}

}  // namespace longhaul::engines::kubernetes
