#include "engines/kubernetes/protocol/objects/node.h"

#include <algorithm>

#include "engines/kubernetes/protocol/objects/object_fields.h"

namespace longhaul::engines::kubernetes {
namespace {

Status ReadTaint(JsonValue value, const JsonPlace& place, Node* node) {
  Taint& taint = node->taints.emplace_back();
  return ForEachField(
      value, place, [&taint](std::string_view key, JsonValue field, const JsonPlace& at) -> Status {
        if (key == "key") return ReadString(field, at, &taint.key);
        if (key == "value") return ReadString(field, at, &taint.value);
        if (key == "effect") return ReadString(field, at, &taint.effect);
        return Status();
      });
}

Status ReadCondition(JsonValue value, const JsonPlace& place, Node* node) {
  NodeCondition& condition = node->conditions.emplace_back();
  return ForEachField(
      value, place,
      [&condition](std::string_view key, JsonValue field, const JsonPlace& at) -> Status {
        if (key == "type") return ReadString(field, at, &condition.type);
        if (key == "status") return ReadString(field, at, &condition.status);
        if (key == "reason") return ReadString(field, at, &condition.reason);
        return Status();
      });
}

Status ReadSpecField(std::string_view key, JsonValue value, const JsonPlace& place, Node* node) {
  if (key == "unschedulable") return ReadBool(value, place, &node->unschedulable);
  if (key != "taints") return Status();
  return ForEachElement(value, place, [node](JsonValue element, const JsonPlace& at) {
    return ReadTaint(element, at, node);
  });
}

Status ReadStatusField(std::string_view key, JsonValue value, const JsonPlace& place, Node* node) {
  if (key == "capacity") return ReadResourceList(value, place, &node->capacity);
  if (key == "allocatable") return ReadResourceList(value, place, &node->allocatable);
  if (key != "conditions") return Status();
  return ForEachElement(value, place, [node](JsonValue element, const JsonPlace& at) {
    return ReadCondition(element, at, node);
  });
}

}  // namespace

bool Node::ready() const {
  return std::any_of(conditions.begin(), conditions.end(), [](const NodeCondition& condition) {
    return condition.type == "Ready" && condition.status == "True";
  });
}

Result<Node> ReadNode(JsonParser& parser, PaddedText json) {
  const JsonPlace place{nullptr, "node"};
  Node node;
  const auto spec = [&node](std::string_view key, JsonValue value, const JsonPlace& at) {
    return ReadSpecField(key, value, at, &node);
  };
  const auto status = [&node](std::string_view key, JsonValue value, const JsonPlace& at) {
    return ReadStatusField(key, value, at, &node);
  };
  RETURN_IF_ERROR(
      ReadObject(parser, json, place,
                 [&](std::string_view key, JsonValue value, const JsonPlace& at) -> Status {
                   if (key == "metadata") return ReadMetaField(value, at, &node.meta);
                   if (key == "spec") return ForEachField(value, at, spec);
                   if (key == "status") return ForEachField(value, at, status);
                   return Status();
                 }));
  RETURN_IF_ERROR(CheckMeta(node.meta, place));
  return node;
}

}  // namespace longhaul::engines::kubernetes
