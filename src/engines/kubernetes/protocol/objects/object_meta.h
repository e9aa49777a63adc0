// What every object of the API has: its name, its identity and its version.
//
// Versions (resourceVersion) are opaque: they are compared for equality only. Fields that no
// component of Longhaul uses are skipped, above all managedFields, which is often most of an
// object.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "base/status.h"
#include "base/time.h"
#include "engines/kubernetes/protocol/objects/json_parser.h"
#include "engines/kubernetes/protocol/objects/padded_text.h"

namespace longhaul::engines::kubernetes {

// Of the annotations, those that begin with the first and the second one are kept.
constexpr std::string_view kAnnotationPrefix = "longhaul.dev/";
// On a claim: the node for which its volume has to be made.
constexpr std::string_view kSelectedNodeAnnotation = "volume.kubernetes.io/selected-node";

using Labels = std::map<std::string, std::string, std::less<>>;

// The object that controls another one (ownerReferences with controller = true).
struct Owner {
  std::string api_version;
  std::string kind;
  std::string name;
  std::string uid;
};

struct ObjectMeta {
  std::string name;
  std::string namespace_name;  // empty: the resource has no namespaces
  std::string uid;
  std::string resource_version;
  int64_t generation = 0;
  Labels labels;
  Labels annotations;  // those above
  std::vector<std::string> finalizers;
  std::optional<Owner> controller;
  std::optional<Instant> created_at;
  bool being_deleted = false;

  // "namespace/name", or "name".
  std::string Key() const;
};

// Reads the metadata of an object of any kind. kInvalidArgument, with the field's name, when a
// field has the wrong type, when name or resourceVersion is missing, or when a name contains a
// slash.
Result<ObjectMeta> ReadObjectMeta(JsonParser& parser, PaddedText json);

}  // namespace longhaul::engines::kubernetes
