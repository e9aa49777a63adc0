#include "engines/kubernetes/jobs/json_members.h"

namespace longhaul::engines::kubernetes {
namespace {

const JobJson& None() {
  static const JobJson kNone;
  return kNone;
}

}  // namespace

const JobJson& MemberOf(const JobJson& object, std::string_view name) {
  if (!object.is_object()) return None();
  const auto found = object.find(name);
  return found == object.end() ? None() : *found;
}

std::string TextAt(const JobJson& object, std::string_view name) {
  const JobJson& value = MemberOf(object, name);
  return value.is_string() ? value.get<std::string>() : "";
}

const JobJson& ConditionIn(const JobJson& conditions, std::string_view type) {
  if (!conditions.is_array()) return None();
  for (const JobJson& condition : conditions) {
    if (TextAt(condition, "type") == type) return condition;
  }
  return None();
}

std::string ControllerUid(const JobJson& meta) {
  const JobJson& owners = MemberOf(meta, "ownerReferences");
  if (!owners.is_array()) return "";
  for (const JobJson& owner : owners) {
    if (MemberOf(owner, "controller") == true) return TextAt(owner, "uid");
  }
  return "";
}

}  // namespace longhaul::engines::kubernetes
