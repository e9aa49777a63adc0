#include "engines/kubernetes/protocol/objects/object_meta.h"

#include <algorithm>

#include "base/instant_text.h"
#include "base/text.h"
#include "engines/kubernetes/protocol/objects/object_fields.h"

namespace longhaul::engines::kubernetes {
namespace {

Status ReadOwner(JsonValue value, const JsonPlace& place, ObjectMeta* meta) {
  Owner owner;
  bool controller = false;
  RETURN_IF_ERROR(ForEachField(
      value, place, [&](std::string_view key, JsonValue field, const JsonPlace& at) -> Status {
        if (key == "apiVersion") return ReadString(field, at, &owner.api_version);
        if (key == "kind") return ReadString(field, at, &owner.kind);
        if (key == "name") return ReadString(field, at, &owner.name);
        if (key == "uid") return ReadString(field, at, &owner.uid);
        if (key == "controller") return ReadBool(field, at, &controller);
        return Status();
      }));
  if (controller) meta->controller = std::move(owner);
  return Status();
}

Status ReadMetaPart(std::string_view key, JsonValue value, const JsonPlace& place,
                    ObjectMeta* meta) {
  if (key == "name") return ReadString(value, place, &meta->name);
  if (key == "namespace") return ReadString(value, place, &meta->namespace_name);
  if (key == "uid") return ReadString(value, place, &meta->uid);
  if (key == "resourceVersion") return ReadString(value, place, &meta->resource_version);
  if (key == "generation") return ReadInt64(value, place, &meta->generation);
  if (key == "labels") return ReadStrings(value, place, "", &meta->labels);
  if (key == "annotations") {
    return ForEachField(
        value, place, [meta](std::string_view name, JsonValue field, const JsonPlace& at) {
          const bool kept = name.starts_with(kAnnotationPrefix) || name == kSelectedNodeAnnotation;
          if (!kept) return Status();
          return ReadString(field, at, &meta->annotations[std::string(name)]);
        });
  }
  if (key == "creationTimestamp") return ReadInstant(value, place, &meta->created_at);
  if (key == "deletionTimestamp") {
    std::optional<Instant> at;
    RETURN_IF_ERROR(ReadInstant(value, place, &at));
    // The time itself lies in the future, by the grace period: only its presence matters.
    meta->being_deleted = at.has_value();
    return Status();
  }
  if (key == "finalizers") {
    return ForEachElement(value, place, [meta](JsonValue element, const JsonPlace& at) {
      return ReadString(element, at, &meta->finalizers.emplace_back());
    });
  }
  if (key == "ownerReferences") {
    return ForEachElement(value, place, [meta](JsonValue element, const JsonPlace& at) {
      return ReadOwner(element, at, meta);
    });
  }
  return Status();
}

}  // namespace

std::string ObjectMeta::Key() const {
  return namespace_name.empty() ? name : namespace_name + "/" + name;
}

void Add(const ResourceList& added, ResourceList* total) {
  for (const auto& [name, quantity] : added) {
    Quantity& sum = (*total)[name];
    sum = sum + quantity;
  }
}

void RaiseTo(const ResourceList& least, ResourceList* total) {
  for (const auto& [name, quantity] : least) {
    Quantity& largest = (*total)[name];
    largest = std::max(largest, quantity);
  }
}

Status ReadMetaField(JsonValue value, const JsonPlace& place, ObjectMeta* meta) {
  return ForEachField(value, place,
                      [meta](std::string_view key, JsonValue field, const JsonPlace& at) {
                        return ReadMetaPart(key, field, at, meta);
                      });
}

Status CheckMeta(const ObjectMeta& meta, const JsonPlace& place) {
  const auto missing = [&place](std::string_view field) {
    return InvalidArgument(place.Text() + " has no metadata." + std::string(field));
  };
  if (meta.name.empty()) return missing("name");
  // Without a version a watch could not continue after this object.
  if (meta.resource_version.empty()) return missing("resourceVersion");
  // Key() would be ambiguous. The API server accepts no such name.
  for (const std::string* const name : {&meta.name, &meta.namespace_name}) {
    if (name->find('/') != name->npos) {
      return InvalidArgument(place.Text() + " has the name '" + Printable(*name) +
                             "', expected a name without a slash");
    }
  }
  return Status();
}

Status ReadStrings(JsonValue value, const JsonPlace& place, std::string_view prefix, Labels* out) {
  return ForEachField(value, place,
                      [&](std::string_view key, JsonValue field, const JsonPlace& at) -> Status {
                        if (!key.starts_with(prefix)) return Status();
                        return ReadString(field, at, &(*out)[std::string(key)]);
                      });
}

Status ReadResourceList(JsonValue value, const JsonPlace& place, ResourceList* out) {
  return ForEachField(value, place,
                      [&](std::string_view key, JsonValue field, const JsonPlace& at) -> Status {
                        simdjson::ondemand::json_type type{};
                        if (const auto error = field.type().get(type); error)
                          return Malformed(at, error);
                        // Clients may write {"nvidia.com/gpu": 8}; the server keeps that form in
                        // annotations only, but
                        // manifests have it.
                        if (type == simdjson::ondemand::json_type::number) {
                          int64_t units = 0;
                          RETURN_IF_ERROR(ReadInt64(field, at, &units));
                          (*out)[std::string(key)] = Quantity::FromUnits(units);
                          return Status();
                        }
                        ASSIGN_OR_RETURN(const std::string_view text, TextOf(field, at));
                        if (text.empty()) return Status();
                        const Result<Quantity> quantity = Quantity::Parse(text);
                        if (!quantity.ok()) return quantity.status().WithContext(at.Text());
                        (*out)[std::string(key)] = *quantity;
                        return Status();
                      });
}

Status ReadInstant(JsonValue value, const JsonPlace& place, std::optional<Instant>* out) {
  ASSIGN_OR_RETURN(const std::string_view text, TextOf(value, place));
  if (text.empty()) return Status();
  const Result<Instant> instant = ParseInstant(text);
  if (!instant.ok()) return instant.status().WithContext(place.Text());
  *out = *instant;
  return Status();
}

Result<ObjectMeta> ReadObjectMeta(JsonParser& parser, PaddedText json) {
  const JsonPlace place{nullptr, "object"};
  ObjectMeta meta;
  RETURN_IF_ERROR(
      ReadObject(parser, json, place,
                 [&meta](std::string_view key, JsonValue value, const JsonPlace& at) -> Status {
                   return key == "metadata" ? ReadMetaField(value, at, &meta) : Status();
                 }));
  RETURN_IF_ERROR(CheckMeta(meta, place));
  return meta;
}

}  // namespace longhaul::engines::kubernetes
