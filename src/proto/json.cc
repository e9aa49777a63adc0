#include "proto/json.h"

#include <google/protobuf/util/json_util.h>

#include <algorithm>
#include <cctype>
#include <cmath>
#include <functional>
#include <map>
#include <string>

namespace longhaul::proto {
namespace {

using google::protobuf::FieldDescriptor;
using google::protobuf::Message;
using Json = nlohmann::ordered_json;

Json Number(double value) { return std::isfinite(value) ? Json(value) : Json(nullptr); }

// As JSON wants it: what isn't UTF-8 (a worker prints what it likes) becomes U+FFFD, because
// nlohmann's dump() throws on it.
Json Text(const std::string& text) {
  const auto is_ascii = [](char c) { return static_cast<unsigned char>(c) < 0x80; };
  if (std::all_of(text.begin(), text.end(), is_ascii)) return text;
  return Json::parse(Json(text).dump(-1, ' ', false, Json::error_handler_t::replace));
}

std::string LowerCase(std::string text) {
  std::transform(text.begin(), text.end(), text.begin(),
                 [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return text;
}

Json Single(const Message& message, const FieldDescriptor& field) {
  const auto& reflection = *message.GetReflection();
  switch (field.cpp_type()) {
    case FieldDescriptor::CPPTYPE_INT32:
      return reflection.GetInt32(message, &field);
    case FieldDescriptor::CPPTYPE_INT64:
      return reflection.GetInt64(message, &field);
    case FieldDescriptor::CPPTYPE_UINT32:
      return reflection.GetUInt32(message, &field);
    case FieldDescriptor::CPPTYPE_UINT64:
      return reflection.GetUInt64(message, &field);
    case FieldDescriptor::CPPTYPE_DOUBLE:
      return Number(reflection.GetDouble(message, &field));
    case FieldDescriptor::CPPTYPE_FLOAT:
      return Number(static_cast<double>(reflection.GetFloat(message, &field)));
    case FieldDescriptor::CPPTYPE_BOOL:
      return reflection.GetBool(message, &field);
    case FieldDescriptor::CPPTYPE_ENUM:
      return LowerCase(reflection.GetEnum(message, &field)->name());
    case FieldDescriptor::CPPTYPE_STRING:
      return Text(reflection.GetString(message, &field));
    case FieldDescriptor::CPPTYPE_MESSAGE:
      return ToJson(reflection.GetMessage(message, &field));
  }
  return nullptr;
}

Json Element(const Message& message, const FieldDescriptor& field, int index) {
  const auto& reflection = *message.GetReflection();
  switch (field.cpp_type()) {
    case FieldDescriptor::CPPTYPE_INT32:
      return reflection.GetRepeatedInt32(message, &field, index);
    case FieldDescriptor::CPPTYPE_INT64:
      return reflection.GetRepeatedInt64(message, &field, index);
    case FieldDescriptor::CPPTYPE_UINT32:
      return reflection.GetRepeatedUInt32(message, &field, index);
    case FieldDescriptor::CPPTYPE_UINT64:
      return reflection.GetRepeatedUInt64(message, &field, index);
    case FieldDescriptor::CPPTYPE_DOUBLE:
      return Number(reflection.GetRepeatedDouble(message, &field, index));
    case FieldDescriptor::CPPTYPE_FLOAT:
      return Number(static_cast<double>(reflection.GetRepeatedFloat(message, &field, index)));
    case FieldDescriptor::CPPTYPE_BOOL:
      return reflection.GetRepeatedBool(message, &field, index);
    case FieldDescriptor::CPPTYPE_ENUM:
      return LowerCase(reflection.GetRepeatedEnum(message, &field, index)->name());
    case FieldDescriptor::CPPTYPE_STRING:
      return Text(reflection.GetRepeatedString(message, &field, index));
    case FieldDescriptor::CPPTYPE_MESSAGE:
      return ToJson(reflection.GetRepeatedMessage(message, &field, index));
  }
  return nullptr;
}

// JSON's keys are texts, also where the map's are numbers.
std::string KeyText(const Json& key) {
  return key.is_string() ? key.get<std::string>() : key.dump();
}

Json Repeated(const Message& message, const FieldDescriptor& field) {
  const int size = message.GetReflection()->FieldSize(message, &field);
  if (!field.is_map()) {
    Json list = Json::array();
    for (int i = 0; i < size; ++i) list.push_back(Element(message, field, i));
    return list;
  }
  // A map comes in no certain order: sort by key, so that equal messages give equal text.
  std::map<std::string, Json> entries;
  for (int i = 0; i < size; ++i) {
    const Json entry = Element(message, field, i);
    entries[KeyText(entry["key"])] = entry["value"];
  }
  Json object = Json::object();
  for (auto& [key, value] : entries) object[key] = value;
  return object;
}

}  // namespace

Json ToJson(const Message& message) {
  Json object = Json::object();
  const auto& descriptor = *message.GetDescriptor();
  for (int i = 0; i < descriptor.field_count(); ++i) {
    const FieldDescriptor& field = *descriptor.field(i);
    if (field.is_repeated()) {
      object[field.name()] = Repeated(message, field);
    } else if (!field.has_presence() || message.GetReflection()->HasField(message, &field)) {
      object[field.name()] = Single(message, field);
    }
  }
  return object;
}

Status FromJson(std::string_view json, google::protobuf::Message* message) {
  Json document = Json::parse(json, nullptr, /*allow_exceptions=*/false);
  if (!document.is_object()) return InvalidArgument("not a JSON object");
  // Only a number that isn't finite is written as null, and protobuf reads null as "absent".
  const std::function<void(Json&)> name_nulls = [&name_nulls](Json& value) {
    if (value.is_null()) value = "NaN";
    if (value.is_structured()) {
      for (Json& element : value) name_nulls(element);
    }
  };
  name_nulls(document);
  google::protobuf::util::JsonParseOptions options;
  options.ignore_unknown_fields = true;
  options.case_insensitive_enum_parsing = true;
  const auto parsed = google::protobuf::util::JsonStringToMessage(
      document.dump(-1, ' ', false, Json::error_handler_t::replace), message, options);
  if (parsed.ok()) return Status();
  return InvalidArgument("not a " + message->GetDescriptor()->name() + ": " + parsed.ToString());
}

}  // namespace longhaul::proto
