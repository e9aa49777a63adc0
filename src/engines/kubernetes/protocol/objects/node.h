// What a scheduler requires of a node.
#pragma once

#include <string>
#include <vector>

#include "base/status.h"
#include "engines/kubernetes/protocol/objects/object_meta.h"
#include "engines/kubernetes/protocol/objects/resource_list.h"

namespace longhaul::engines::kubernetes {

struct Taint {
  std::string key;
  std::string value;
  std::string effect;  // NoSchedule, PreferNoSchedule, NoExecute
};

struct NodeCondition {
  std::string type;    // Ready, or the type of a node-problem-detector or of a vendor
  std::string status;  // True, False, Unknown
  std::string reason;
};

struct Node {
  ObjectMeta meta;
  bool unschedulable = false;  // cordoned
  std::vector<Taint> taints;
  ResourceList capacity;
  // May fall below what the bound pods occupy, when a device plugin reports unhealthy devices.
  ResourceList allocatable;
  std::vector<NodeCondition> conditions;

  // Whether the condition Ready is True.
  bool ready() const;
};

// Reads a node. kInvalidArgument, with the field's name, when a field has the wrong type, a
// quantity is malformed, or name or resourceVersion is missing.
Result<Node> ReadNode(JsonParser& parser, PaddedText json);

}  // namespace longhaul::engines::kubernetes
