#include "engines/kubernetes/scheduling/node_rules.h"

#include <algorithm>

#include "base/text.h"

namespace longhaul::engines::kubernetes {
namespace {

constexpr std::string_view kNameField = "metadata.name";

bool Contains(const std::vector<std::string>& values, const std::string& value) {
  return std::find(values.begin(), values.end(), value) != values.end();
}

// Whether a requirement holds; `value` is null for an absent label.
bool Holds(const NodeRequirement& requirement, const std::string* value) {
  const std::string& comparison = requirement.comparison;
  if (comparison == "Exists") return value != nullptr;
  if (comparison == "DoesNotExist") return value == nullptr;
  if (comparison == "In") return value != nullptr && Contains(requirement.values, *value);
  if (comparison == "NotIn") return value == nullptr || !Contains(requirement.values, *value);
  if (value == nullptr) return false;
  const Result<int64_t> number = ParseInt64(*value);
  const Result<int64_t> bound = ParseInt64(requirement.values.at(0));
  if (!number.ok() || !bound.ok()) return false;
  return comparison == "Gt" ? *number > *bound : *number < *bound;
}

// A term without requirements permits no node, as for the API server.
bool Holds(const NodeSelectorTerm& term, const Node& node) {
  if (term.match_labels.empty() && term.match_fields.empty()) return false;
  const auto label_holds = [&node](const NodeRequirement& requirement) {
    const auto found = node.meta.labels.find(requirement.key);
    return Holds(requirement, found == node.meta.labels.end() ? nullptr : &found->second);
  };
  const auto field_holds = [&node](const NodeRequirement& requirement) {
    return Holds(requirement, &node.meta.name);
  };
  return std::all_of(term.match_labels.begin(), term.match_labels.end(), label_holds) &&
         std::all_of(term.match_fields.begin(), term.match_fields.end(), field_holds);
}

bool Tolerates(const Toleration& toleration, const Taint& taint) {
  if (!toleration.effect.empty() && toleration.effect != taint.effect) return false;
  if (toleration.key.empty()) return toleration.exists;
  if (toleration.key != taint.key) return false;
  return toleration.exists || toleration.value == taint.value;
}

Status CheckRequirement(const NodeRequirement& requirement) {
  const std::string& comparison = requirement.comparison;
  const auto is = [&comparison](const char* word) { return comparison == word; };
  if (is("In") || is("NotIn") || is("Exists") || is("DoesNotExist")) return {};
  if (!is("Gt") && !is("Lt")) {
    return InvalidArgument("node affinity: the operator '" + Printable(comparison, 40) +
                           "' is not supported");
  }
  if (requirement.values.size() == 1 && ParseInt64(requirement.values[0]).ok()) return {};
  return InvalidArgument("node affinity: " + comparison + " of '" + Printable(requirement.key, 80) +
                         "' needs one whole number");
}

// Texts are preceded by their lengths, so that no text can imitate the structure.
class Key {
 public:
  void Add(std::string_view text) {
    Add(text.size());
    text_ += text;
  }
  void Add(size_t number) {
    text_ += std::to_string(number);
    text_ += ':';
  }
  void Add(const std::vector<NodeRequirement>& requirements) {
    Add(requirements.size());
    for (const NodeRequirement& requirement : requirements) {
      Add(requirement.key);
      Add(requirement.comparison);
      Add(requirement.values.size());
      for (const std::string& value : requirement.values) Add(value);
    }
  }
  std::string Take() { return std::move(text_); }

 private:
  std::string text_;
};

}  // namespace

NodeRules RulesOf(const Pod& pod) {
  NodeRules rules;
  rules.selector = pod.node_selector;
  if (pod.required_node_terms) rules.terms.push_back(*pod.required_node_terms);
  rules.tolerations = pod.tolerations;
  return rules;
}

Status CheckRules(const NodeRules& rules) {
  for (const std::vector<NodeSelectorTerm>& alternatives : rules.terms) {
    for (const NodeSelectorTerm& term : alternatives) {
      for (const NodeRequirement& requirement : term.match_labels) {
        RETURN_IF_ERROR(CheckRequirement(requirement));
      }
      for (const NodeRequirement& requirement : term.match_fields) {
        if (requirement.key != kNameField) {
          return InvalidArgument("node affinity: the field '" + Printable(requirement.key, 80) +
                                 "' is not supported, only metadata.name is");
        }
        RETURN_IF_ERROR(CheckRequirement(requirement));
      }
    }
  }
  return {};
}

bool MatchesLabels(const NodeRules& rules, const Node& node) {
  for (const auto& [label, value] : rules.selector) {
    const auto found = node.meta.labels.find(label);
    if (found == node.meta.labels.end() || found->second != value) return false;
  }
  for (const std::vector<NodeSelectorTerm>& alternatives : rules.terms) {
    const bool holds =
        std::any_of(alternatives.begin(), alternatives.end(),
                    [&node](const NodeSelectorTerm& term) { return Holds(term, node); });
    if (!holds) return false;
  }
  return true;
}

bool Permits(const NodeRules& rules, const Node& node) {
  if (!MatchesLabels(rules, node)) return false;
  return std::all_of(node.taints.begin(), node.taints.end(), [&rules](const Taint& taint) {
    if (taint.effect != "NoSchedule" && taint.effect != "NoExecute") return true;
    return std::any_of(
        rules.tolerations.begin(), rules.tolerations.end(),
        [&taint](const Toleration& toleration) { return Tolerates(toleration, taint); });
  });
}

std::string KeyOf(const NodeRules& rules) {
  Key key;
  key.Add(rules.selector.size());
  for (const auto& [label, value] : rules.selector) {
    key.Add(label);
    key.Add(value);
  }
  key.Add(rules.terms.size());
  for (const std::vector<NodeSelectorTerm>& alternatives : rules.terms) {
    key.Add(alternatives.size());
    for (const NodeSelectorTerm& term : alternatives) {
      key.Add(term.match_labels);
      key.Add(term.match_fields);
    }
  }
  for (const Toleration& toleration : rules.tolerations) {
    key.Add(toleration.key);
    key.Add(toleration.exists ? 1 : 0);
    key.Add(toleration.value);
    key.Add(toleration.effect);
  }
  return key.Take();
}

}  // namespace longhaul::engines::kubernetes
