// Reads parts that several kinds of objects have. For sources of this folder only.
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "engines/kubernetes/protocol/objects/json_fields.h"
#include "engines/kubernetes/protocol/objects/node_selector.h"
#include "engines/kubernetes/protocol/objects/object_meta.h"
#include "engines/kubernetes/protocol/objects/resource_list.h"

namespace longhaul::engines::kubernetes {

Status ReadMetaField(JsonValue value, const JsonPlace& place, ObjectMeta* meta);
// kInvalidArgument when an identifying field is missing.
Status CheckMeta(const ObjectMeta& meta, const JsonPlace& place);

// Reads a map of strings; keeps the keys that begin with `prefix`.
Status ReadStrings(JsonValue value, const JsonPlace& place, std::string_view prefix, Labels* out);
// Adds the resources of a list such as {"cpu": "500m", "nvidia.com/gpu": "1"}. The API server
// writes quantities as strings; whole numbers without quotes are read, too.
Status ReadResourceList(JsonValue value, const JsonPlace& place, ResourceList* out);
// Adds the terms of {"nodeSelectorTerms": [...]}.
Status ReadNodeSelector(JsonValue value, const JsonPlace& place,
                        std::vector<NodeSelectorTerm>* terms);
// Stores "2026-01-31T08:00:00Z".
Status ReadInstant(JsonValue value, const JsonPlace& place, std::optional<Instant>* out);

}  // namespace longhaul::engines::kubernetes
