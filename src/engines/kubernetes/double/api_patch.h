// Patches of objects, as the API server applies them: merge, JSON patch, strategic merge, apply.
#pragma once

#include <map>
#include <optional>
#include <set>
#include <string>

#include "engines/kubernetes/double/api_object.h"

namespace longhaul::engines::kubernetes {

// Which managers own each field, by the field's JSON pointer.
using FieldOwners = std::map<std::string, std::set<std::string>>;

// Returns nothing when a JSON patch does not apply. Requires one of the three kinds of patch.
std::optional<Json> Patched(const Json& object, const std::string& content_type, const Json& patch);

// Merges as a strategic merge patch does: lists of maps by their key, where they have one.
void StrategicMerge(Json& object, const Json& patch);

// Records that `manager` has changed the fields in which the two differ.
void RecordOwner(const Json& before, const Json& after, const std::string& manager,
                 FieldOwners* owners);

// Server-side apply to an existing object. Returns the refusal when fields of other managers would
// change without `force`.
std::optional<Refusal> ApplyTo(Json& object, FieldOwners* owners, const Json& applied,
                               const std::string& manager, bool force);

}  // namespace longhaul::engines::kubernetes
