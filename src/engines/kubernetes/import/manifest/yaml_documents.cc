#include "engines/kubernetes/import/manifest/yaml_documents.h"

#include <yaml-cpp/eventhandler.h>
#include <yaml-cpp/yaml.h>

#include <map>
#include <optional>
#include <sstream>
#include <utility>

#include "base/check.h"
#include "base/text.h"
#include "engines/kubernetes/import/manifest/manifest_reader.h"
#include "engines/kubernetes/import/manifest/yaml_scalar.h"

namespace longhaul::engines::kubernetes {
namespace {

constexpr const char* kTextTag = "tag:yaml.org,2002:str";

// Builds the values from the parser's events. After the first error the rest is ignored.
class DocumentBuilder final : public YAML::EventHandler {
 public:
  explicit DocumentBuilder(std::string file) : file_(std::move(file)) {}

  void OnDocumentStart(const YAML::Mark&) override {
    root_ = JobJson();
    anchors_.clear();
  }
  void OnDocumentEnd() override {}
  void OnNull(const YAML::Mark& mark, YAML::anchor_t anchor) override {
    if (Accept(mark, 1, 0)) Place(mark, {JobJson(), 1, 0}, anchor);
  }
  void OnAlias(const YAML::Mark& mark, YAML::anchor_t anchor) override {
    const auto found = anchors_.find(anchor);
    if (found == anchors_.end()) {
      return Refuse(mark, "an alias stands for a value that contains it: write the value out");
    }
    const Value& value = found->second;
    if (Accept(mark, value.values, value.bytes)) Place(mark, value, YAML::NullAnchor);
  }
  void OnScalar(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
                const std::string& value) override {
    if (!Accept(mark, 1, value.size())) return;
    if (WantsKey()) {
      if (anchor != YAML::NullAnchor) return Refuse(mark, "a key has an anchor: leave it out");
      return OpenKey(mark, value, tag == "?");
    }
    if (tag == "!" || tag == kTextTag)
      return Place(mark, {JobJson(value), 1, value.size()}, anchor);
    if (tag != "?") {
      return Refuse(mark, "the tag " + Printable(tag, 60) + " is not supported: leave it out");
    }
    const std::optional<JobJson> plain = PlainScalarValue(value);
    if (!plain) {
      return Refuse(mark, "'" + Printable(value, 40) +
                              "' is no number of at most 64 bits: write a text in quotes");
    }
    Place(mark, {*plain, 1, value.size()}, anchor);
  }
  void OnSequenceStart(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
                       YAML::EmitterStyle::value) override {
    Open(mark, tag, anchor, JobJson::array());
  }
  void OnSequenceEnd() override { Close(); }
  void OnMapStart(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
                  YAML::EmitterStyle::value) override {
    Open(mark, tag, anchor, JobJson::object());
  }
  void OnMapEnd() override { Close(); }

  const Status& status() const { return status_; }
  JobJson TakeRoot() { return std::move(root_); }

 private:
  // With the number of values in it, itself included, and the bytes of their texts.
  struct Value {
    JobJson json;
    size_t values = 1;
    size_t bytes = 0;
  };
  struct Container {
    Value value;
    YAML::anchor_t anchor = YAML::NullAnchor;
    YAML::Mark mark;
    std::optional<std::string> key;  // of a map: the one whose value comes next
    bool merges = false;             // the key is <<
    std::vector<JobJson> merged;     // the maps that << names
  };

  bool WantsKey() const {
    return !open_.empty() && open_.back().value.json.is_object() && !open_.back().key &&
           !open_.back().merges;
  }

  void Refuse(const YAML::Mark& mark, const std::string& why) {
    if (!status_.ok()) return;
    status_ = InvalidArgument(file_ + ":" + std::to_string(mark.line + 1) + ": " + why);
  }

  bool Accept(const YAML::Mark& mark, size_t values, size_t bytes) {
    if (!status_.ok()) return false;
    values_ += values;
    bytes_ += bytes;
    if (bytes_ > kMostManifestText) {
      Refuse(mark, "the file has more than 16 MiB of text, with that of aliases: divide it");
      return false;
    }
    if (values_ <= kMostManifestValues) return true;
    Refuse(mark, "the file has more than " + WithThousands(kMostManifestValues) +
                     " values, with those that aliases stand for: divide it");
    return false;
  }

  void OpenKey(const YAML::Mark& mark, const std::string& key, bool plain) {
    Container& map = open_.back();
    if (plain && key == "<<") {
      map.merges = true;
      return;
    }
    if (map.value.json.contains(key)) {
      return Refuse(mark, "the key '" + Printable(key, 60) + "' is there twice: remove one");
    }
    if (map.value.json.size() == kMostManifestKeys) {
      return Refuse(mark, "a map has more than " + WithThousands(kMostManifestKeys) + " keys");
    }
    map.key = key;
  }

  void Open(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor, JobJson empty) {
    if (!Accept(mark, 1, 0)) return;
    if (WantsKey()) return Refuse(mark, "a key is a list or a map, expected text");
    if (tag != "?" && tag != "!" && !tag.empty()) {
      return Refuse(mark, "the tag " + Printable(tag, 60) + " is not supported: leave it out");
    }
    if (open_.size() == kMostManifestDepth) {
      return Refuse(
          mark, "values are nested deeper than " + std::to_string(kMostManifestDepth) + " levels");
    }
    Container container;
    container.value.json = std::move(empty);
    container.anchor = anchor;
    container.mark = mark;
    open_.push_back(std::move(container));
  }

  void Close() {
    if (!status_.ok()) return;
    Container done = std::move(open_.back());
    open_.pop_back();
    for (const JobJson& other : done.merged) {
      for (const auto& [key, value] : other.items()) {
        if (!done.value.json.contains(key)) done.value.json[key] = value;
      }
    }
    Place(done.mark, std::move(done.value), done.anchor);
  }

  void Merge(const YAML::Mark& mark, Container& map, const JobJson& value) {
    map.merges = false;
    bool good = value.is_object();
    if (value.is_array()) {
      good = true;
      for (const JobJson& each : value) good = good && each.is_object();
    }
    if (!good) return Refuse(mark, "'<<' has a value that is no map, and no list of maps");
    if (value.is_object()) map.merged.push_back(value);
    if (!value.is_array()) return;
    for (const JobJson& each : value) map.merged.push_back(each);
  }

  void Place(const YAML::Mark& mark, Value value, YAML::anchor_t anchor) {
    if (WantsKey()) return Refuse(mark, "a key is null or an alias, expected text");
    if (anchor != YAML::NullAnchor) anchors_[anchor] = value;
    if (open_.empty()) {
      root_ = std::move(value.json);
      return;
    }
    Container& outer = open_.back();
    // An alias may bring levels of its own.
    if (open_.size() + Depth(value.json) > kMostManifestDepth) {
      return Refuse(
          mark, "values are nested deeper than " + std::to_string(kMostManifestDepth) + " levels");
    }
    outer.value.values += value.values;
    outer.value.bytes += value.bytes;
    if (outer.merges) return Merge(mark, outer, value.json);
    if (!outer.value.json.is_object()) {
      outer.value.json.push_back(std::move(value.json));
      return;
    }
    CHECK(outer.key.has_value());
    outer.value.json[*std::exchange(outer.key, std::nullopt)] = std::move(value.json);
  }

  // Levels of containers, at most one more than the limit.
  static size_t Depth(const JobJson& value, size_t limit = kMostManifestDepth) {
    if (!value.is_structured()) return 0;
    size_t deepest = 0;
    if (limit == 0) return 1;
    for (const JobJson& each : value) deepest = std::max(deepest, Depth(each, limit - 1));
    return deepest + 1;
  }

  const std::string file_;
  Status status_;
  JobJson root_;
  std::vector<Container> open_;
  std::map<YAML::anchor_t, Value> anchors_;
  size_t values_ = 0;  // of the whole file, as bytes_
  size_t bytes_ = 0;
};

}  // namespace

Result<std::vector<JobJson>> ReadYamlDocuments(std::string_view text, const std::string& file) {
  std::vector<JobJson> documents;
  DocumentBuilder builder(file);
  try {
    std::istringstream stream{std::string(text)};
    YAML::Parser parser(stream);
    while (parser.HandleNextDocument(builder)) {
      RETURN_IF_ERROR(builder.status());
      documents.push_back(builder.TakeRoot());
      if (documents.size() <= kMostDocuments) continue;
      return InvalidArgument(file + ": has more than " + WithThousands(kMostDocuments) +
                             " documents: divide it");
    }
  } catch (const YAML::Exception& error) {
    RETURN_IF_ERROR(builder.status());
    return InvalidArgument(file + ":" + std::to_string(error.mark.line + 1) +
                           ": not valid YAML: " + Printable(error.msg));
  } catch (const std::exception& error) {
    return InvalidArgument(file + ": not valid YAML: " + Printable(error.what()));
  }
  return documents;
}

}  // namespace longhaul::engines::kubernetes
