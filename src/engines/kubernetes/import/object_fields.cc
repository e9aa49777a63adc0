#include "engines/kubernetes/import/object_fields.h"

#include <utility>

#include "base/text.h"

namespace longhaul::engines::kubernetes {
namespace {

const JobJson& NoValue() {
  static const JobJson kNone;
  return kNone;
}

}  // namespace

std::string PathJoin(const std::string& path, std::string_view name) {
  return path.empty() ? std::string(name) : path + "." + std::string(name);
}

std::string PathItem(const std::string& path, size_t index) {
  return path + "[" + std::to_string(index) + "]";
}

ObjectFields::ObjectFields(const JobJson& object, std::string path, Translation& translation)
    : object_(object), path_(std::move(path)), translation_(translation) {
  if (object.is_null() || object.is_object()) return;
  translation_.Fail(path_, "is " + ShowValue(object) + ", expected an object");
}

std::string ObjectFields::PathOf(std::string_view name) const { return PathJoin(path_, name); }

const JobJson& ObjectFields::Peek(std::string_view name) const {
  if (!object_.is_object()) return NoValue();
  const auto found = object_.find(std::string(name));
  return found == object_.end() ? NoValue() : *found;
}

void ObjectFields::Fail(std::string_view name, const std::string& expected) {
  translation_.Fail(PathOf(name), "is " + ShowValue(Peek(name)) + ", expected " + expected);
}

const JobJson& ObjectFields::Take(std::string_view name) {
  read_.emplace(name);
  return Peek(name);
}

const JobJson& ObjectFields::TakeObject(std::string_view name) {
  const JobJson& value = Take(name);
  if (value.is_null() || value.is_object()) return value;
  Fail(name, "an object");
  return NoValue();
}

const JobJson& ObjectFields::TakeList(std::string_view name) {
  const JobJson& value = Take(name);
  if (value.is_null()) return value;
  bool good = value.is_array();
  for (const JobJson& each : value) good = good && each.is_object();
  if (good) return value;
  Fail(name, "a list of objects");
  return NoValue();
}

std::string ObjectFields::TakeText(std::string_view name) {
  const JobJson& value = Take(name);
  if (value.is_null()) return "";
  if (value.is_string()) return value.get<std::string>();
  Fail(name, "a text in quotes");
  return "";
}

std::optional<bool> ObjectFields::TakeTruth(std::string_view name) {
  const JobJson& value = Take(name);
  if (value.is_null()) return std::nullopt;
  if (value.is_boolean()) return value.get<bool>();
  Fail(name, "true or false");
  return std::nullopt;
}

std::optional<int64_t> ObjectFields::TakeNumber(std::string_view name, int64_t least,
                                                int64_t most) {
  const JobJson& value = Take(name);
  if (value.is_null()) return std::nullopt;
  const bool fits =
      value.is_number_integer() &&
      (!value.is_number_unsigned() || value.get<uint64_t>() <= static_cast<uint64_t>(INT64_MAX)) &&
      value.get<int64_t>() >= least && value.get<int64_t>() <= most;
  if (fits) return value.get<int64_t>();
  Fail(name, "a number from " + WithThousands(least) + " to " + WithThousands(most));
  return std::nullopt;
}

void ObjectFields::Changed(std::string_view name, const std::string& reason) {
  if (!Take(name).is_null()) translation_.Changed(PathOf(name), reason);
}
void ObjectFields::Dropped(std::string_view name, const std::string& reason) {
  if (!Take(name).is_null()) translation_.Dropped(PathOf(name), reason);
}
void ObjectFields::NotNeeded(std::string_view name, const std::string& reason) {
  if (!Take(name).is_null()) translation_.NotNeeded(PathOf(name), reason);
}

void ObjectFields::Finish() {
  if (!object_.is_object()) return;
  for (const auto& [name, value] : object_.items()) {
    if (value.is_null() || read_.contains(name)) continue;
    translation_.Dropped(PathOf(name), "the importer does not know this field");
  }
}

}  // namespace longhaul::engines::kubernetes
