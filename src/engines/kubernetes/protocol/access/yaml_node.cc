#include "engines/kubernetes/protocol/access/yaml_node.h"

#include <yaml-cpp/eventhandler.h>
#include <yaml-cpp/yaml.h>

#include <optional>
#include <sstream>
#include <utility>

#include "base/check.h"
#include "base/text.h"
#include "base/utf8.h"

namespace longhaul::engines::kubernetes {
namespace {

constexpr size_t kMaxBytes = size_t{1} << 20;
constexpr size_t kMaxNodes = 20'000;
constexpr size_t kMaxDepth = 32;

// Builds the tree from the parser's events. After the first error the rest is ignored.
class TreeBuilder final : public YAML::EventHandler {
 public:
  explicit TreeBuilder(std::string source) : source_(std::move(source)) {}

  void OnDocumentStart(const YAML::Mark&) override {}
  void OnDocumentEnd() override {}
  void OnNull(const YAML::Mark& mark, YAML::anchor_t anchor) override {
    if (!Accept(mark, anchor)) return;
    if (WantsKey()) return Refuse(mark, "a key is null, expected text");
    Place({YamlNode::Kind::kNull, "", Line(mark), "", {}});
  }
  void OnAlias(const YAML::Mark& mark, YAML::anchor_t) override { RefuseAnchor(mark); }
  void OnScalar(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
                const std::string& value) override {
    if (!Accept(mark, anchor)) return;
    if (WantsKey()) {
      keys_.back() = value;
      return;
    }
    // The tag "?" is that of a scalar without quotes.
    const bool null = tag == "?" && (value == "null" || value == "~" || value.empty());
    Place({null ? YamlNode::Kind::kNull : YamlNode::Kind::kScalar, "", Line(mark), value, {}});
  }
  void OnSequenceStart(const YAML::Mark& mark, const std::string&, YAML::anchor_t anchor,
                       YAML::EmitterStyle::value) override {
    Open(mark, anchor, YamlNode::Kind::kSequence);
  }
  void OnSequenceEnd() override { Close(); }
  void OnMapStart(const YAML::Mark& mark, const std::string&, YAML::anchor_t anchor,
                  YAML::EmitterStyle::value) override {
    Open(mark, anchor, YamlNode::Kind::kMap);
  }
  void OnMapEnd() override { Close(); }

  const Status& status() const { return status_; }
  YamlNode TakeRoot() { return std::move(root_); }

 private:
  static int Line(const YAML::Mark& mark) { return mark.line + 1; }

  bool WantsKey() const {
    return !open_.empty() && open_.back().kind == YamlNode::Kind::kMap && !keys_.back();
  }

  void Refuse(const YAML::Mark& mark, const std::string& why) {
    if (status_.ok()) {
      status_ = InvalidArgument(source_ + ":" + std::to_string(Line(mark)) + ": " + why);
    }
  }
  void RefuseAnchor(const YAML::Mark& mark) {
    Refuse(mark, "anchors (&) and aliases (*) are not supported: write the value out");
  }

  bool Accept(const YAML::Mark& mark, YAML::anchor_t anchor) {
    if (!status_.ok()) return false;
    // A few bytes of nested aliases can stand for billions of values.
    if (anchor != YAML::NullAnchor) {
      RefuseAnchor(mark);
    } else if (++nodes_ > kMaxNodes) {
      Refuse(mark, "has more than " + std::to_string(kMaxNodes) + " values");
    }
    return status_.ok();
  }

  void Open(const YAML::Mark& mark, YAML::anchor_t anchor, YamlNode::Kind kind) {
    if (!Accept(mark, anchor)) return;
    if (WantsKey()) {
      return Refuse(mark, "a key is a list or a map, expected text");
    }
    if (open_.size() == kMaxDepth) {
      return Refuse(mark, "is nested deeper than " + std::to_string(kMaxDepth) + " levels");
    }
    open_.push_back({kind, "", Line(mark), "", {}});
    keys_.emplace_back();
  }

  void Close() {
    if (!status_.ok()) return;
    YamlNode node = std::move(open_.back());
    open_.pop_back();
    keys_.pop_back();
    Place(std::move(node));
  }

  void Place(YamlNode node) {
    if (open_.empty()) {
      root_ = std::move(node);
      return;
    }
    YamlNode& outer = open_.back();
    if (outer.kind == YamlNode::Kind::kMap) {
      CHECK(keys_.back().has_value());
      node.key = *std::exchange(keys_.back(), std::nullopt);
    }
    outer.children.push_back(std::move(node));
  }

  const std::string source_;
  Status status_;
  YamlNode root_;
  std::vector<YamlNode> open_;                    // the containers around the present place
  std::vector<std::optional<std::string>> keys_;  // of each: the key whose value comes next
  size_t nodes_ = 0;
};

}  // namespace

const YamlNode* YamlNode::Find(std::string_view name) const {
  if (kind != Kind::kMap) return nullptr;
  for (const YamlNode& child : children) {
    if (child.key == name) return &child;
  }
  return nullptr;
}

Result<YamlNode> ParseYaml(std::string_view text, const std::string& source) {
  if (text.size() > kMaxBytes) {
    return InvalidArgument(source + " has " + WithThousands(static_cast<int64_t>(text.size())) +
                           " bytes, expected at most 1 MiB");
  }
  if (!IsUtf8(text) || text.find('\0') != text.npos) {
    return InvalidArgument(source + " is not UTF-8 text");
  }
  TreeBuilder builder(source);
  // Of a second document only its existence matters.
  TreeBuilder second(source);
  try {
    std::istringstream stream{std::string(text)};
    YAML::Parser parser(stream);
    if (!parser.HandleNextDocument(builder)) return InvalidArgument(source + " is empty");
    RETURN_IF_ERROR(builder.status());
    if (parser.HandleNextDocument(second)) {
      return InvalidArgument(source + " has more than one YAML document");
    }
  } catch (const YAML::Exception& error) {
    RETURN_IF_ERROR(builder.status());
    return InvalidArgument(source + ":" + std::to_string(error.mark.line + 1) +
                           ": not valid YAML: " + error.msg);
  } catch (const std::exception& error) {
    return InvalidArgument(source + ": not valid YAML: " + error.what());
  }
  return builder.TakeRoot();
}

}  // namespace longhaul::engines::kubernetes
