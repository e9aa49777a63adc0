#include "engines/kubernetes/protocol/objects/node_selector.h"

#include "engines/kubernetes/protocol/objects/object_fields.h"

namespace longhaul::engines::kubernetes {
namespace {

Status ReadRequirements(JsonValue value, const JsonPlace& place,
                        std::vector<NodeRequirement>* requirements) {
  return ForEachElement(value, place, [&](JsonValue element, const JsonPlace& element_at) {
    NodeRequirement& requirement = requirements->emplace_back();
    return ForEachField(
        element, element_at,
        [&requirement](std::string_view key, JsonValue field, const JsonPlace& at) -> Status {
          if (key == "key") return ReadString(field, at, &requirement.key);
          if (key == "operator") return ReadString(field, at, &requirement.comparison);
          if (key != "values") return Status();
          return ForEachElement(field, at, [&](JsonValue text, const JsonPlace& text_at) {
            return ReadString(text, text_at, &requirement.values.emplace_back());
          });
        });
  });
}

Status ReadTerm(JsonValue value, const JsonPlace& place, NodeSelectorTerm* term) {
  return ForEachField(value, place,
                      [term](std::string_view key, JsonValue field, const JsonPlace& at) -> Status {
                        if (key == "matchExpressions")
                          return ReadRequirements(field, at, &term->match_labels);
                        if (key == "matchFields")
                          return ReadRequirements(field, at, &term->match_fields);
                        return Status();
                      });
}

}  // namespace

Status ReadNodeSelector(JsonValue value, const JsonPlace& place,
                        std::vector<NodeSelectorTerm>* terms) {
  return ForEachField(
      value, place, [terms](std::string_view name, JsonValue field, const JsonPlace& at) {
        if (name != "nodeSelectorTerms") return Status();
        return ForEachElement(field, at, [terms](JsonValue term, const JsonPlace& term_at) {
          return ReadTerm(term, term_at, &terms->emplace_back());
        });
      });
}

}  // namespace longhaul::engines::kubernetes
