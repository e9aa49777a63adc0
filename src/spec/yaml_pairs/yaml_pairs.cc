#include "spec/yaml_pairs/yaml_pairs.h"

#include "spec/internal/document.h"

namespace longhaul::spec {
namespace {

using internal::Node;

void Walk(const Node& node, const std::string& path, std::vector<YamlPair>& pairs) {
  switch (node.kind) {
    case Node::Kind::kNull:
      return;
    case Node::Kind::kScalar:
      pairs.push_back({path, {node.text}, node.line});
      return;
    case Node::Kind::kList: {
      YamlPair pair{path, {}, node.line};
      for (const Node& child : node.children) {
        if (child.kind == Node::Kind::kScalar) pair.values.push_back(child.text);
      }
      pairs.push_back(std::move(pair));
      return;
    }
    case Node::Kind::kMap:
      for (const Node& child : node.children) {
        Walk(child, path.empty() ? child.key : path + "." + child.key, pairs);
      }
  }
}

}  // namespace

Result<std::vector<YamlPair>> ParseYamlPairs(std::string_view text, std::string_view source) {
  ASSIGN_OR_RETURN(const Node root, internal::ParseDocument(text, source));
  if (root.kind != Node::Kind::kMap) {
    return InvalidArgument(std::string(source) + ": expected a map of settings");
  }
  std::vector<YamlPair> pairs;
  Walk(root, "", pairs);
  return pairs;
}

}  // namespace longhaul::spec
