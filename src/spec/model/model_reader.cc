#include "spec/model/model_reader.h"

#include <algorithm>
#include <limits>
#include <optional>
#include <type_traits>

#include "base/text.h"
#include "spec/internal/document.h"
#include "spec/internal/job_schema.h"
#include "spec/internal/mistakes.h"
#include "spec/model/model_document.h"
#include "spec/model/model_schema.h"

namespace longhaul::spec {

namespace {

using internal::LimitsText;
using internal::Mistakes;
using internal::Node;

// Fills a model from a tree, visited by VisitModel. Continues after a mistake.
class YamlReader {
 public:
  YamlReader(const Node& root, std::string_view source) : map_(&root), source_(source) {
    if (root.kind != Node::Kind::kMap) {
      Refuse(root.line, "", "a model is a map of keys such as 'layers: 32'");
    }
  }

  void Text(const char* key, std::string& value, size_t most) {
    const Node* node = Take(key);
    if (node == nullptr) return;
    if (node->kind != Node::Kind::kScalar || node->text.size() > most) {
      return Refuse(node->line, key,
                    "must be a text of at most " + std::to_string(most) + " bytes");
    }
    value = node->text;
  }

  template <typename T>
  void Whole(const char* key, T& value, uint64_t min, uint64_t max) {
    static_assert(std::is_unsigned_v<T>);
    const Node* node = Take(key);
    if (node == nullptr) return;
    const Result<uint64_t> number = ParseUint64(node->text);
    const bool plain = node->kind == Node::Kind::kScalar && !node->quoted;
    if (!plain || !number.ok() || *number < min || *number > max) {
      return Refuse(node->line, key,
                    "must be a whole number, " + LimitsText(min, max) + ", not " + Shown(*node));
    }
    value = static_cast<T>(*number);
  }

  void Flag(const char* key, bool& value) {
    const Node* node = Take(key);
    if (node == nullptr) return;
    if (node->text != "true" && node->text != "false") {
      return Refuse(node->line, key, "must be true or false, not " + Shown(*node));
    }
    value = node->text == "true";
  }

  void Real(const char* key, std::optional<double>& value, double above, double most) {
    const Node* node = Take(key);
    if (node == nullptr || node->kind == Node::Kind::kNull) return;
    const Result<double> number = ParseDouble(node->text);
    if (!number.ok() || !(*number > above && *number <= most)) {
      return Refuse(
          node->line, key,
          "must be a number " + LimitsText({above, most, true, false}) + ", not " + Shown(*node));
    }
    value = *number;
  }

  template <typename T, typename WordList>
  void Word(const char* key, T& value, const WordList& words) {
    const Node* node = Take(key);
    if (node == nullptr) return;
    std::vector<std::string_view> known;
    for (const auto& [word, meaning] : words) {
      known.push_back(word);
      if (node->text == word) {
        value = meaning;
        return;
      }
    }
    std::string why = "must be one of " +
                      Join(std::vector<std::string>(known.begin(), known.end()), ", ") + ", not " +
                      Shown(*node);
    if (const auto nearest = Nearest(node->text, known)) {
      why += ", did you mean '" + std::string(*nearest) + "'";
    }
    Refuse(node->line, key, why);
  }

  template <typename T, typename Body>
  // Sections are not nested in a model file, so one prefix is enough.
  void Section(const char* key, std::optional<T>& value, const Body& body) {
    const Node* node = Take(key);
    if (node == nullptr || node->kind == Node::Kind::kNull) return;
    if (node->kind != Node::Kind::kMap) {
      return Refuse(node->line, key, "must be a map of keys or null, not " + Shown(*node));
    }
    const Node* const outer = std::exchange(map_, node);
    std::vector<std::string_view> outer_known = std::exchange(known_, {});
    section_ = std::string(key) + ".";
    value.emplace();
    body(*value);
    RefuseUnknown();
    section_.clear();
    known_ = std::move(outer_known);
    map_ = outer;
  }

  void RefuseUnknown() {
    for (const Node& child : map_->children) {
      if (std::find(known_.begin(), known_.end(), child.key) != known_.end()) continue;
      std::string why = "unknown key";
      if (const auto nearest = Nearest(child.key, known_)) {
        why += ", did you mean '" + std::string(*nearest) + "'";
      }
      Refuse(child.key_line, Printable(child.key, 60), why);
    }
  }

  bool Has(std::string_view key) const { return internal::Find(*map_, key) != nullptr; }

  void Refuse(int line, std::string_view key, const std::string& why) {
    std::string text = source_ + ":" + std::to_string(line) + ": ";
    if (!key.empty()) text += section_ + std::string(key) + ": ";
    mistakes_.Add(text + why);
  }

  Status Finish() && { return std::move(mistakes_).Finish(); }

 private:
  static std::string Shown(const Node& node) {
    if (node.kind == Node::Kind::kNull) return "nothing";
    if (node.kind == Node::Kind::kList) return "a list";
    if (node.kind == Node::Kind::kMap) return "a map";
    return "'" + Printable(node.text, 40) + "'";
  }

  const Node* Take(const char* key) {
    known_.push_back(key);
    return internal::Find(*map_, key);
  }

  const Node* map_;
  std::string section_;
  std::vector<std::string_view> known_;
  const std::string source_;
  Mistakes mistakes_;
};

// Writes what VisitModel visits.
// Visits the same keys in the same order as the reader, so that a written model reads back equal.
class YamlWriter {
 public:
  void Text(const char* key, const std::string& value, size_t) {
    std::string quoted = "\"";
    for (const char c : value) {
      if (c == '"' || c == '\\') quoted += '\\';
      if (c == '\n' || c == '\r' || c == '\t') {
        quoted += c == '\n' ? "\\n" : c == '\r' ? "\\r" : "\\t";
      } else {
        quoted += c;
      }
    }
    Line(key, quoted + "\"");
  }
  void Whole(const char* key, uint64_t value, uint64_t, uint64_t) {
    Line(key, std::to_string(value));
  }
  void Flag(const char* key, bool value) { Line(key, value ? "true" : "false"); }
  void Real(const char* key, const std::optional<double>& value, double, double) {
    Line(key, value ? internal::ShortestText(*value) : "null");
  }
  template <typename T, typename WordList>
  void Word(const char* key, const T& value, const WordList& words) {
    for (const auto& [word, meaning] : words) {
      if (meaning == value) Line(key, std::string(word));
    }
  }
  template <typename T, typename Body>
  void Section(const char* key, const std::optional<T>& value, const Body& body) {
    if (!value) return Line(key, "null");
    text_ += std::string(key) + ":\n";
    indent_ = "  ";
    body(*value);
    indent_.clear();
  }

  std::string Take() && { return std::move(text_); }

 private:
  void Line(const char* key, const std::string& value) {
    text_ += indent_ + key + ": " + value + "\n";
  }

  std::string text_;
  std::string indent_;
};

// What a file may leave out and that follows from the rest.
void FillGaps(const YamlReader& reader, Model& model) {
  if (!reader.Has("kv_heads")) model.kv_heads = model.heads;
  if (!reader.Has("head_dim") && model.heads > 0) {
    model.head_dim = std::max(1u, model.hidden / model.heads);
  }
  if (!reader.Has("ffn_hidden") && !model.experts) model.ffn_hidden = 4 * model.hidden;
}

Result<Model> ReadYaml(const Node& root, std::string_view source) {
  YamlReader reader(root, source);
  Model model;
  if (root.kind == Node::Kind::kMap) {
    VisitModel(reader, model);
    reader.RefuseUnknown();
    FillGaps(reader, model);
    for (const char* key : {"layers", "hidden", "heads", "vocabulary", "sequence_length"}) {
      if (!reader.Has(key)) reader.Refuse(root.line, key, "is missing");
    }
  }
  RETURN_IF_ERROR(std::move(reader).Finish());
  return model;
}

}  // namespace

Result<Model> ParseModel(std::string_view text, std::string_view source) {
  ASSIGN_OR_RETURN(const Node root, internal::ParseDocument(text, source));
  // A config.json is recognised by keys that a model file does not have.
  const bool hugging_face = internal::Find(root, "model_type") != nullptr ||
                            internal::Find(root, "architectures") != nullptr;
  ASSIGN_OR_RETURN(Model model,
                   hugging_face ? internal::ReadHuggingFace(root, source) : ReadYaml(root, source));
  const Status sound = CheckModel(model);
  if (!sound.ok()) return sound.WithContext(source);
  return model;
}

std::string ToYaml(const Model& model) {
  YamlWriter writer;
  VisitModel(writer, model);
  return std::move(writer).Take();
}

}  // namespace longhaul::spec
