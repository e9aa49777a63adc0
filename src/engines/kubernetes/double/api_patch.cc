#include "engines/kubernetes/double/api_patch.h"

#include <algorithm>
#include <array>
#include <string_view>
#include <utility>

namespace longhaul::engines::kubernetes {
namespace {

// The keys by which lists are merged, by the name of the list.
constexpr std::array<std::pair<std::string_view, std::string_view>, 5> kMergeKeys = {{
    {"conditions", "type"},
    {"containers", "name"},
    {"initContainers", "name"},
    {"schedulingGates", "name"},
    {"taints", "key"},
}};

std::string_view MergeKey(std::string_view list) {
  for (const auto& [name, key] : kMergeKeys) {
    if (name == list) return key;
  }
  return {};
}

void MergeList(Json& list, const Json& patch, const std::string& key) {
  Json added = Json::array();
  for (const Json& element : patch) {
    const auto same = [&](const Json& present) {
      return present.value(key, Json()) == element.value(key, Json());
    };
    const auto found = std::find_if(list.begin(), list.end(), same);
    if (found != list.end()) {
      StrategicMerge(*found, element);
    } else {
      added.push_back(element);
    }
  }
  // The server puts what the patch adds before what was there.
  list.insert(list.begin(), added.begin(), added.end());
}

// The values of an object by their pointers, without what identifies it. Lists are one value.
std::map<std::string, Json> Leaves(const Json& object) {
  std::map<std::string, Json> leaves;
  const auto visit = [&leaves](const auto& self, const Json& value, const std::string& at) -> void {
    if (!value.is_object()) {
      leaves[at] = value;
      return;
    }
    for (const auto& [key, field] : value.items()) {
      std::string escaped;
      for (const char c : key) {
        escaped += c == '~' ? "~0" : c == '/' ? "~1" : std::string(1, c);
      }
      self(self, field, at + "/" + escaped);
    }
  };
  for (const auto& [key, field] : object.items()) {
    if (key == "apiVersion" || key == "kind") continue;
    if (key != "metadata") {
      visit(visit, field, "/" + key);
      continue;
    }
    for (const char* const part : {"labels", "annotations", "finalizers", "ownerReferences"}) {
      if (field.contains(part)) visit(visit, field[part], "/metadata/" + std::string(part));
    }
  }
  return leaves;
}

// "/data/a" as the server names it: ".data.a".
std::string FieldName(std::string pointer) {
  std::replace(pointer.begin(), pointer.end(), '/', '.');
  return pointer;
}

std::optional<Refusal> Conflicts(const Json& object, const FieldOwners& owners,
                                 const std::map<std::string, Json>& wanted,
                                 const std::string& manager) {
  Json causes = Json::array();
  std::string list;
  for (const auto& [pointer, value] : wanted) {
    const Json::json_pointer at(pointer);
    if (!object.contains(at) || object.at(at) == value) continue;
    const auto owned = owners.find(pointer);
    if (owned == owners.end() || owned->second.empty() || owned->second.contains(manager)) continue;
    const std::string message =
        "conflict with \"" + *owned->second.begin() + "\" using " + object.value("apiVersion", "");
    causes.push_back(
        {{"reason", "FieldManagerConflict"}, {"message", message}, {"field", FieldName(pointer)}});
    list = message + ": " + FieldName(pointer);
  }
  if (causes.empty()) return std::nullopt;
  const std::string count = std::to_string(causes.size());
  const std::string what = causes.size() == 1 ? " conflict: " : " conflicts: ";
  return Refusal{
      409, "Conflict", "Apply failed with " + count + what + list, {{"causes", std::move(causes)}}};
}

}  // namespace

void StrategicMerge(Json& object, const Json& patch) {
  if (!patch.is_object() || !object.is_object()) {
    object = patch;
    return;
  }
  for (const auto& [key, value] : patch.items()) {
    const std::string merge_key(MergeKey(key));
    if (value.is_null()) {
      object.erase(key);
    } else if (value.is_array() && !merge_key.empty() && object.contains(key) &&
               object[key].is_array()) {
      MergeList(object[key], value, merge_key);
    } else if (value.is_object() && object.contains(key)) {
      StrategicMerge(object[key], value);
    } else {
      object[key] = value;
    }
  }
}

std::optional<Json> Patched(const Json& object, const std::string& content_type,
                            const Json& patch) {
  Json patched = object;
  if (content_type == "application/strategic-merge-patch+json") {
    StrategicMerge(patched, patch);
    return patched;
  }
  if (content_type == "application/merge-patch+json") {
    patched.merge_patch(patch);
    return patched;
  }
  try {
    return object.patch(patch);
  } catch (const Json::exception&) {
    return std::nullopt;
  }
}

void RecordOwner(const Json& before, const Json& after, const std::string& manager,
                 FieldOwners* owners) {
  const std::map<std::string, Json> old_leaves = Leaves(before);
  const std::map<std::string, Json> new_leaves = Leaves(after);
  for (const auto& [pointer, value] : new_leaves) {
    const auto old_leaf = old_leaves.find(pointer);
    if (old_leaf == old_leaves.end() || old_leaf->second != value) (*owners)[pointer] = {manager};
  }
  for (const auto& [pointer, value] : old_leaves) {
    if (!new_leaves.contains(pointer)) owners->erase(pointer);
  }
}

std::optional<Refusal> ApplyTo(Json& object, FieldOwners* owners, const Json& applied,
                               const std::string& manager, bool force) {
  const std::map<std::string, Json> wanted = Leaves(applied);
  if (!force) {
    if (auto conflicts = Conflicts(object, *owners, wanted, manager)) return conflicts;
  }
  for (auto& [pointer, managers] : *owners) {
    if (wanted.contains(pointer) || managers.erase(manager) == 0 || !managers.empty()) continue;
    // The manager was the only one, and has given the field up.
    const Json::json_pointer at(pointer);
    if (object.contains(at)) object[at.parent_pointer()].erase(at.back());
  }
  for (const auto& [pointer, value] : wanted) {
    const Json::json_pointer at(pointer);
    const bool same = object.contains(at) && object.at(at) == value;
    object[at] = value;
    if (!same) (*owners)[pointer].clear();
    (*owners)[pointer].insert(manager);
  }
  return std::nullopt;
}

}  // namespace longhaul::engines::kubernetes
