// Requirements on nodes, as pods (node affinity) and volumes have them.
#pragma once

#include <string>
#include <vector>

namespace longhaul::engines::kubernetes {

// One requirement of a node selector term, on a label or (match_fields) on a field of the node.
struct NodeRequirement {
  std::string key;
  std::string comparison;  // In, NotIn, Exists, DoesNotExist, Gt, Lt
  std::vector<std::string> values;
};
// All requirements of a term must hold.
struct NodeSelectorTerm {
  std::vector<NodeRequirement> match_labels;
  std::vector<NodeRequirement> match_fields;
};

}  // namespace longhaul::engines::kubernetes
