#include "engines/kubernetes/protocol/objects/pod_group.h"

#include "engines/kubernetes/protocol/objects/object_fields.h"

namespace longhaul::engines::kubernetes {
namespace {

// schedulingPolicy: {gang: {minCount: 8}} or {basic: {}}
Status ReadPolicy(JsonValue value, const JsonPlace& place, PodGroup* group) {
  return ForEachField(
      value, place, [group](std::string_view key, JsonValue field, const JsonPlace& at) -> Status {
        if (key != "gang") return Status();
        return ForEachField(
            field, at, [group](std::string_view name, JsonValue count, const JsonPlace& count_at) {
              return name == "minCount" ? ReadInt32(count, count_at, &group->least_pods) : Status();
            });
      });
}

// schedulingConstraints: {topology: [{key: LABEL}]}
Status ReadConstraints(JsonValue value, const JsonPlace& place, PodGroup* group) {
  return ForEachField(
      value, place, [group](std::string_view key, JsonValue field, const JsonPlace& at) -> Status {
        if (key != "topology") return Status();
        return ForEachElement(field, at, [group](JsonValue element, const JsonPlace& element_at) {
          return ForEachField(
              element, element_at,
              [group](std::string_view name, JsonValue label, const JsonPlace& label_at) {
                return name == "key" ? ReadString(label, label_at, &group->topology_key) : Status();
              });
        });
      });
}

Status ReadSpecField(std::string_view key, JsonValue value, const JsonPlace& place,
                     PodGroup* group) {
  if (key == "minMember") return ReadInt32(value, place, &group->least_pods);
  if (key == "schedulingPolicy") return ReadPolicy(value, place, group);
  if (key == "schedulingConstraints") return ReadConstraints(value, place, group);
  return Status();
}

}  // namespace

Result<PodGroup> ReadPodGroup(JsonParser& parser, PaddedText json) {
  const JsonPlace place{nullptr, "podGroup"};
  PodGroup group;
  const auto spec = [&group](std::string_view key, JsonValue value, const JsonPlace& at) {
    return ReadSpecField(key, value, at, &group);
  };
  RETURN_IF_ERROR(
      ReadObject(parser, json, place,
                 [&](std::string_view key, JsonValue value, const JsonPlace& at) -> Status {
                   if (key == "metadata") return ReadMetaField(value, at, &group.meta);
                   if (key == "spec") return ForEachField(value, at, spec);
                   return Status();
                 }));
  RETURN_IF_ERROR(CheckMeta(group.meta, place));
  if (group.meta.namespace_name.empty()) {
    return InvalidArgument("podGroup has no metadata.namespace");
  }
  return group;
}

}  // namespace longhaul::engines::kubernetes
