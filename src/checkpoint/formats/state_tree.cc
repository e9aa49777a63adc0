#include "checkpoint/formats/state_tree.h"

#include "base/text.h"

namespace longhaul::checkpoint {
namespace {

Status Bad(const std::string& what) { return InvalidArgument("not a state's tree: " + what); }

bool IsKey(const Tree& key) { return key.is_string() || key.is_number_integer(); }

bool IsInteger(const Tree& content) {
  if (!content.is_string()) return false;
  const auto& text = content.get_ref<const std::string&>();
  const std::string_view digits = std::string_view(text).substr(text.starts_with('-') ? 1 : 0);
  return !digits.empty() && digits.size() <= kMaxTreeDigits &&
         digits.find_first_not_of("0123456789") == digits.npos;
}

// One object with one kind as its key; state_tree.h has the kinds. Every index is checked here, so
// later code uses it without a check.
Status CheckNode(const Tree& node, size_t tensors, int depth) {
  if (depth > kMaxTreeDepth) return Bad("deeper than " + std::to_string(kMaxTreeDepth));
  if (!node.is_object() || node.empty()) return Bad("a node that is no object");
  const auto [kind, content] = *node.items().begin();
  if (kind == "t") {
    if (!content.is_number_unsigned() || content.get<uint64_t>() >= tensors) {
      return Bad("a tensor that isn't there");
    }
    return {};
  }
  if (kind == "v") {
    return content.is_primitive() ? Status() : Bad("a value that isn't plain");
  }
  if (kind == "f") {
    const bool known = content == "nan" || content == "inf" || content == "-inf";
    return known ? Status() : Bad("a number that isn't one");
  }
  if (kind == "i") {
    return IsInteger(content) ? Status() : Bad("an integer that isn't one");
  }
  if (kind == "l" || kind == "u") {
    if (!content.is_array()) return Bad("a list that is none");
    for (const Tree& item : content) RETURN_IF_ERROR(CheckNode(item, tensors, depth + 1));
    return {};
  }
  if (kind != "d" || !content.is_array()) return Bad("a node of kind " + Printable(kind));
  for (const Tree& entry : content) {
    if (!entry.is_array() || entry.size() != 2 || !IsKey(entry[0])) return Bad("a bad entry");
    RETURN_IF_ERROR(CheckNode(entry[1], tensors, depth + 1));
  }
  return {};
}

std::string KeyText(const Tree& key) {
  return key.is_string() ? key.get<std::string>() : key.dump();
}

void Name(const Tree& node, const std::string& place, char separator,
          std::vector<std::string>& names) {
  const auto [kind, content] = *node.items().begin();
  const std::string prefix = place.empty() ? "" : place + separator;
  if (kind == "t") {
    names[content.get<size_t>()] = place;
  } else if (kind == "l" || kind == "u") {
    size_t i = 0;
    for (const Tree& item : content) Name(item, prefix + std::to_string(i++), separator, names);
  } else if (kind == "d") {
    for (const Tree& entry : content) {
      Name(entry[1], prefix + KeyText(entry[0]), separator, names);
    }
  }
}

// True until the parser is deeper than a tree may be: two levels a node.
bool ShallowEnough(int depth, nlohmann::detail::parse_event_t, Tree&) {
  return depth <= 3 * kMaxTreeDepth + 8;
}

}  // namespace

Result<Tree> ParseTree(std::string_view text, size_t tensors) {
  Tree tree = Tree::parse(text, ShallowEnough, /*allow_exceptions=*/false);
  if (tree.is_discarded()) return Bad("no JSON");
  RETURN_IF_ERROR(CheckNode(tree, tensors, 0));
  return tree;
}

std::vector<std::string> TreeNames(const Tree& tree, size_t tensors, char separator) {
  std::vector<std::string> names(tensors);
  Name(tree, "", separator, names);
  return names;
}

Tree FlatTree(const std::vector<std::string>& names) {
  Tree entries = Tree::array();
  for (size_t i = 0; i < names.size(); ++i) {
    entries.push_back(Tree::array({names[i], Tree{{"t", i}}}));
  }
  return Tree{{"d", std::move(entries)}};
}

}  // namespace longhaul::checkpoint
