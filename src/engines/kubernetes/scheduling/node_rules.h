// Which nodes a pod may be bound to: its node selector, its required node affinity, its
// tolerations.
//
// Pods with equal rules share one entry of the cluster's model, so the rules have a key.
// Preferences (taints PreferNoSchedule) restrict nothing and are not considered.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "engines/kubernetes/protocol/objects/node.h"
#include "engines/kubernetes/protocol/objects/pod.h"

namespace longhaul::engines::kubernetes {

struct NodeRules {
  Labels selector;
  // Of each entry, at least one term must hold.
  std::vector<std::vector<NodeSelectorTerm>> terms;
  std::vector<Toleration> tolerations;
};

NodeRules RulesOf(const Pod& pod);

// Refuses what cannot be evaluated: an unknown operator, a field other than metadata.name, a bound
// that is not a whole number.
Status CheckRules(const NodeRules& rules);

// Whether the rules permit the node, whatever is free on it and whatever its condition. Requires
// that CheckRules accepted them.
bool Permits(const NodeRules& rules, const Node& node);

// The same without the node's taints.
bool MatchesLabels(const NodeRules& rules, const Node& node);

// Equal rules have equal keys, and different ones different keys.
std::string KeyOf(const NodeRules& rules);

}  // namespace longhaul::engines::kubernetes
