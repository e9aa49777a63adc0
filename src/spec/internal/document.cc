#include "spec/internal/document.h"

#include <yaml-cpp/eventhandler.h>
#include <yaml-cpp/exceptions.h>
#include <yaml-cpp/mark.h>
#include <yaml-cpp/parser.h>

#include <exception>
#include <set>
#include <sstream>
#include <utility>

#include "base/text.h"
#include "base/utf8.h"

namespace longhaul::spec::internal {

namespace {

// The limits bound the memory and the depth of recursion that a file with any content can cause.
constexpr size_t kMaxBytes = size_t{1} << 20;
constexpr size_t kMaxDepth = 16;
constexpr size_t kMaxNodes = 20'000;

// yaml-cpp gives some of these a meaning of their own.
bool IsControl(char c) {
  const auto byte = static_cast<unsigned char>(c);
  return byte < 0x20 && c != '\t' && c != '\n' && c != '\r';
}

// Builds the tree from yaml-cpp's events. After the first problem it ignores what follows.
class TreeBuilder : public YAML::EventHandler {
 public:
  explicit TreeBuilder(std::string_view source) : source_(source) {}

  const Status& status() const { return status_; }
  Node TakeRoot() { return std::move(root_); }

  void OnDocumentStart(const YAML::Mark&) override {}
  void OnDocumentEnd() override {}

  void OnNull(const YAML::Mark& mark, YAML::anchor_t anchor) override {
    if (!Accept(mark, "", anchor)) return;
    if (ExpectsKey()) return Refuse(mark, "a key is missing before ':'");
    Node node;
    node.line = Line(mark);
    Attach(std::move(node));
  }

  void OnAlias(const YAML::Mark& mark, YAML::anchor_t) override { RefuseAnchor(mark); }

  void OnScalar(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
                const std::string& value) override {
    if (!Accept(mark, tag, anchor)) return;
    // yaml-cpp's own escapes can yield what is none, "\\N" for one.
    if (!IsUtf8(value)) return Refuse(mark, "an escape in this text gives no UTF-8 character");
    if (ExpectsKey()) return TakeKey(mark, value);
    Node node;
    node.kind = Node::Kind::kScalar;
    node.line = Line(mark);
    // yaml-cpp gives quoted texts the tag "!" and plain ones "?". The readers distinguish the text
    // "5" from the number 5 by this.
    node.quoted = tag == "!";
    node.text = value;
    Attach(std::move(node));
  }

  void OnSequenceStart(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
                       YAML::EmitterStyle::value) override {
    Open(mark, tag, anchor, Node::Kind::kList);
  }
  void OnSequenceEnd() override { Close(); }

  void OnMapStart(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
                  YAML::EmitterStyle::value) override {
    Open(mark, tag, anchor, Node::Kind::kMap);
  }
  void OnMapEnd() override { Close(); }

 private:
  // A list or map that is not closed yet, with the key that waits for its value.
  struct Frame {
    Node node;
    bool has_key = false;
    std::string key;
    int key_line = 0;
    std::set<std::string> keys;
  };

  static int Line(const YAML::Mark& mark) { return mark.line + 1; }

  void Refuse(const YAML::Mark& mark, const std::string& why) {
    if (!status_.ok()) return;
    status_ = InvalidArgument(source_ + ":" + std::to_string(Line(mark)) + ": " + why);
  }
  void RefuseAnchor(const YAML::Mark& mark) {
    Refuse(mark, "anchors (&) and aliases (*) are not supported: write the value out");
  }

  bool Accept(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor) {
    if (!status_.ok()) return false;
    if (anchor != YAML::NullAnchor) {
      RefuseAnchor(mark);
    } else if (!tag.empty() && tag != "?" && tag != "!") {
      Refuse(mark, "tags such as '" + Printable(tag, 40) + "' are not supported");
    } else if (++nodes_ > kMaxNodes) {
      Refuse(mark, "more than " + std::to_string(kMaxNodes) + " values");
    }
    return status_.ok();
  }

  bool ExpectsKey() const {
    return !open_.empty() && open_.back().node.kind == Node::Kind::kMap && !open_.back().has_key;
  }

  void TakeKey(const YAML::Mark& mark, const std::string& key) {
    Frame& frame = open_.back();
    if (!frame.keys.insert(key).second) {
      return Refuse(mark, "the key '" + Printable(key, 40) + "' is given twice");
    }
    frame.has_key = true;
    frame.key = key;
    frame.key_line = Line(mark);
  }

  void Open(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
            Node::Kind kind) {
    if (!Accept(mark, tag, anchor)) return;
    if (ExpectsKey()) return Refuse(mark, "a key must be a word, not a list or a map");
    if (open_.size() == kMaxDepth) {
      return Refuse(mark, "nested deeper than " + std::to_string(kMaxDepth) + " levels");
    }
    Frame frame;
    frame.node.kind = kind;
    frame.node.line = Line(mark);
    open_.push_back(std::move(frame));
  }

  void Close() {
    if (!status_.ok()) return;
    Node node = std::move(open_.back().node);
    open_.pop_back();
    Attach(std::move(node));
  }

  void Attach(Node node) {
    if (open_.empty()) {
      root_ = std::move(node);
      return;
    }
    Frame& frame = open_.back();
    if (frame.node.kind == Node::Kind::kMap) {
      node.key = std::exchange(frame.key, {});
      node.key_line = frame.key_line;
      frame.has_key = false;
    }
    frame.node.children.push_back(std::move(node));
  }

  const std::string source_;
  Status status_;
  Node root_;
  std::vector<Frame> open_;
  size_t nodes_ = 0;
};

int LineOf(std::string_view text, size_t offset) {
  int line = 1;
  for (const char c : text.substr(0, offset)) line += c == '\n' ? 1 : 0;
  return line;
}

Status CheckText(std::string_view text, const std::string& source) {
  if (text.size() > kMaxBytes) {
    return InvalidArgument(source + ": larger than 1 MiB (" +
                           WithThousands(static_cast<int64_t>(text.size())) + " bytes)");
  }
  for (size_t at = 0; at < text.size();) {
    const size_t length = Utf8CharacterLength(text, at);
    if (length == 0 || IsControl(text[at])) {
      return InvalidArgument(source + ":" + std::to_string(LineOf(text, at)) + ": the byte '" +
                             Printable(text.substr(at, 1)) + "' is not UTF-8 text");
    }
    at += length;
  }
  return {};
}

}  // namespace

const Node* Find(const Node& map, std::string_view key) {
  if (map.kind != Node::Kind::kMap) return nullptr;
  for (const Node& child : map.children) {
    if (child.key == key) return &child;
  }
  return nullptr;
}

Result<Node> ParseDocument(std::string_view text, std::string_view source_name) {
  const std::string source(source_name);
  RETURN_IF_ERROR(CheckText(text, source));
  TreeBuilder builder(source);
  try {
    std::istringstream stream{std::string(text)};
    YAML::Parser parser(stream);
    if (!parser.HandleNextDocument(builder)) return InvalidArgument(source + ": is empty");
    RETURN_IF_ERROR(builder.status());
    // Of a second document only its existence matters: a file with two would otherwise lose one
    // without a message.
    TreeBuilder second(source);
    if (parser.HandleNextDocument(second)) {
      return InvalidArgument(source + ": has more than one YAML document");
    }
  } catch (const YAML::Exception& error) {
    // The first problem counts, and the builder found its own before the parser failed.
    RETURN_IF_ERROR(builder.status());
    return InvalidArgument(source + ":" + std::to_string(error.mark.line + 1) + ":" +
                           std::to_string(error.mark.column + 1) +
                           ": not valid YAML: " + error.msg);
  } catch (const std::exception& error) {
    return InvalidArgument(source + ": not valid YAML: " + error.what());
  }
  return builder.TakeRoot();
}

}  // namespace longhaul::spec::internal
