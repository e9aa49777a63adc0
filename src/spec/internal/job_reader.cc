#include "spec/internal/job_reader.h"

#include <algorithm>
#include <array>
#include <utility>

#include "base/text.h"

namespace longhaul::spec::internal {

namespace {

constexpr size_t kMaxMistakes = 10;

// What torchrun and Longhaul themselves set for every worker.
constexpr auto kReservedVariables = std::to_array<std::string_view>(
    {"RANK", "LOCAL_RANK", "GROUP_RANK", "WORLD_SIZE", "LOCAL_WORLD_SIZE", "GROUP_WORLD_SIZE",
     "MASTER_ADDR", "MASTER_PORT", "LONGHAUL_AGENT_SOCKET", "LONGHAUL_ARRAY_ID",
     "LONGHAUL_ARRAY_INDEX", "LONGHAUL_ARRAY_COUNT", "LONGHAUL_ARRAY_VALUE", "LONGHAUL_DEVICES"});

// What a value is, for "must be ..., not ...".
std::string Describe(const Node& node) {
  switch (node.kind) {
    case Node::Kind::kNull:
      return "empty";
    case Node::Kind::kList:
      return "a list";
    case Node::Kind::kMap:
      return "a map";
    case Node::Kind::kScalar:
      break;
  }
  return (node.quoted ? "the text " : "") + ("'" + Printable(node.text, 40) + "'");
}

// The portable names of environment variables: a shell cannot read others.
bool IsVariableName(std::string_view name) {
  const auto is_letter = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_';
  };
  if (name.empty() || name.size() > 255 || !is_letter(name.front())) return false;
  return std::all_of(name.begin(), name.end(),
                     [&](char c) { return is_letter(c) || (c >= '0' && c <= '9'); });
}

bool InRange(double number, const RealRange& range) {
  const bool above = range.min_open ? number > range.min : number >= range.min;
  const bool below = range.max_open ? number < range.max : number <= range.max;
  return above && below;
}

// "64MiB", "500 kB", "1024": whole numbers only. Absent when it isn't one or passes 2^63.
std::optional<uint64_t> ParseSize(std::string_view text) {
  static constexpr std::pair<std::string_view, uint64_t> kUnits[] = {{"", 1},
                                                                     {"B", 1},
                                                                     {"KiB", uint64_t{1} << 10},
                                                                     {"MiB", uint64_t{1} << 20},
                                                                     {"GiB", uint64_t{1} << 30},
                                                                     {"TiB", uint64_t{1} << 40},
                                                                     {"kB", 1'000},
                                                                     {"MB", 1'000'000},
                                                                     {"GB", 1'000'000'000},
                                                                     {"TB", 1'000'000'000'000}};
  const size_t end = std::min(text.find_first_not_of("0123456789"), text.size());
  const Result<uint64_t> number = ParseUint64(text.substr(0, end));
  const std::string_view unit = Trim(text.substr(end));
  for (const auto& [name, bytes] : kUnits) {
    if (unit != name || !number.ok()) continue;
    if (*number > static_cast<uint64_t>(INT64_MAX) / bytes) return std::nullopt;
    return *number * bytes;
  }
  return std::nullopt;
}

}  // namespace

JobReader::JobReader(const Node& root, std::string_view source)
    : root_(root), map_(&root), source_(source) {
  if (root.kind != Node::Kind::kMap) {
    RefuseAt(root.line, "", "a job is a map of keys such as 'name: my-job', not " + Describe(root));
  }
}

std::string JobReader::Path(std::string_view key) const {
  return section_.empty() ? std::string(key) : section_ + "." + std::string(key);
}

// Every key that is looked up counts as known in its section, so the list of known keys cannot
// differ from what the reader reads.
const Node* JobReader::Take(const char* key) {
  known_.push_back(key);
  return map_ == nullptr ? nullptr : Find(*map_, key);
}

const Node* JobReader::FindPath(std::string_view path) const {
  const Node* node = &root_;
  for (const std::string_view key : Split(path, '.')) {
    if (node != nullptr) node = Find(*node, key);
  }
  return node;
}

// A mistake about a key that is absent is reported at the line of its section.
void JobReader::Refuse(std::string_view path, const std::string& why) {
  const Node* node = FindPath(path);
  if (node == nullptr) node = FindPath(path.substr(0, path.find('.')));
  RefuseAt(node == nullptr ? 0 : node->key_line, path, why);
}

// Mistakes are collected and sorted by line, so that a user can correct all of them at once.
void JobReader::RefuseAt(int line, std::string_view path, const std::string& why) {
  std::string text = source_;
  if (line > 0) text += ":" + std::to_string(line);
  if (!path.empty()) text += ": " + Printable(path, 100);
  mistakes_.emplace(line, text + ": " + why);
}

Status JobReader::Finish() const {
  if (mistakes_.empty()) return {};
  std::vector<std::string> lines;
  for (const auto& [line, text] : mistakes_) {
    if (lines.size() == kMaxMistakes) {
      lines.push_back("and " + std::to_string(mistakes_.size() - kMaxMistakes) + " more");
      break;
    }
    lines.push_back(text);
  }
  return InvalidArgument(Join(lines, "\n"));
}

void JobReader::RefuseUnknown(const Node& map) {
  if (map.kind != Node::Kind::kMap) return;
  for (const Node& child : map.children) {
    if (std::find(known_.begin(), known_.end(), child.key) != known_.end()) continue;
    std::string why = "unknown key";
    if (const auto nearest = Nearest(child.key, known_)) {
      why += ", did you mean '" + std::string(*nearest) + "'";
    } else {
      for (const KeyInfo& key : JobKeys()) {
        if (key.path.ends_with("." + child.key)) why += ", did you mean '" + key.path + "'";
      }
    }
    std::vector<std::string> known(known_.begin(), known_.end());
    RefuseAt(child.key_line, Path(child.key), why + "; known here: " + Join(known, ", "));
  }
}

// The state of the outer section is stored and restored, so sections can be nested.
void JobReader::Section(const char* key, const std::function<void()>& body) {
  const Node* node = Take(key);
  if (node == nullptr || node->kind == Node::Kind::kNull) return;
  if (node->kind != Node::Kind::kMap) {
    return RefuseAt(node->line, Path(key), "must be a map of keys, not " + Describe(*node));
  }
  const Node* const outer = std::exchange(map_, node);
  std::vector<std::string_view> outer_known = std::exchange(known_, {});
  std::string outer_section = Path(key);
  std::swap(section_, outer_section);
  body();
  RefuseUnknown(*node);
  section_ = std::move(outer_section);
  known_ = std::move(outer_known);
  map_ = outer;
}

void JobReader::Constant(const char* key, const char* text) {
  const Node* node = Take(key);
  if (node == nullptr || (node->kind == Node::Kind::kScalar && node->text == text)) return;
  RefuseAt(node->line, Path(key), "must be '" + std::string(text) + "', not " + Describe(*node));
}

std::optional<uint64_t> JobReader::ReadWhole(const Node& node, const char* key,
                                             std::string_view before, uint64_t min, uint64_t max) {
  const std::string limits = std::string(before) + LimitsText(min, max);
  const Result<uint64_t> number = ParseUint64(node.text);
  const bool plain = node.kind == Node::Kind::kScalar && !node.quoted;
  if (plain && number.ok() && *number >= min && *number <= max) return *number;
  const bool is_number = plain && (number.ok() || ParseInt64(node.text).ok() ||
                                   number.status().code() == Code::kOutOfRange);
  RefuseAt(node.line, Path(key),
           is_number ? Printable(node.text, 40) + " is out of range: " + limits
                     : "must be a whole number (" + limits + "), not " + Describe(node));
  return std::nullopt;
}

void JobReader::Flag(const char* key, bool& value) {
  const Node* node = Take(key);
  if (node == nullptr) return;
  const bool plain = node->kind == Node::Kind::kScalar && !node->quoted;
  if (!plain || (node->text != "true" && node->text != "false")) {
    return RefuseAt(node->line, Path(key), "must be true or false, not " + Describe(*node));
  }
  value = node->text == "true";
}

void JobReader::Real(const char* key, double& value, const RealRange& range) {
  const Node* node = Take(key);
  if (node == nullptr) return;
  const bool plain = node->kind == Node::Kind::kScalar && !node->quoted;
  const Result<double> number = ParseDouble(node->text);
  if (!plain || !number.ok()) {
    return RefuseAt(node->line, Path(key),
                    "must be a number (" + LimitsText(range) + "), not " + Describe(*node));
  }
  if (!InRange(*number, range)) {
    return RefuseAt(node->line, Path(key),
                    Printable(node->text, 40) + " is out of range: " + LimitsText(range));
  }
  value = *number;
}

std::optional<uint64_t> JobReader::ReadSize(const Node& node, const char* key,
                                            std::string_view before, uint64_t min, uint64_t max) {
  const std::string limits = std::string(before) + SizeLimitsText(min, max);
  const bool scalar = node.kind == Node::Kind::kScalar;
  const std::optional<uint64_t> bytes = scalar ? ParseSize(node.text) : std::nullopt;
  if (bytes && *bytes >= min && *bytes <= max) return bytes;
  RefuseAt(node.line, Path(key),
           bytes ? node.text + " is out of range: " + limits
                 : "must be a size such as 64MiB (" + limits + "), not " + Describe(node));
  return std::nullopt;
}

void JobReader::Size(const char* key, uint64_t& value, uint64_t min, uint64_t max) {
  const Node* node = Take(key);
  if (node == nullptr) return;
  if (const auto bytes = ReadSize(*node, key, "", min, max)) value = *bytes;
}

void JobReader::AutoSize(const char* key, std::optional<uint64_t>& value, uint64_t min,
                         uint64_t max) {
  const Node* node = Take(key);
  if (node == nullptr) return;
  if (node->text == "auto") {
    value.reset();
  } else if (const auto bytes = ReadSize(*node, key, "auto, or ", min, max)) {
    value = *bytes;
  }
}

std::optional<std::string> JobReader::ReadText(const Node& node, const std::string& path,
                                               size_t min, size_t limit) {
  if (node.kind != Node::Kind::kScalar) {
    RefuseAt(node.line, path, "must be a text, not " + Describe(node));
  } else if (node.text.find('\0') != std::string::npos) {
    RefuseAt(node.line, path, "must not contain a NUL character");
  } else if (node.text.size() < min) {
    RefuseAt(node.line, path, "must not be empty");
  } else if (node.text.size() > limit) {
    RefuseAt(node.line, path,
             "has " + WithThousands(static_cast<int64_t>(node.text.size())) + " bytes: at most " +
                 WithThousands(static_cast<int64_t>(limit)));
  } else {
    return node.text;
  }
  return std::nullopt;
}

void JobReader::Text(const char* key, std::string& value, size_t limit) {
  const Node* node = Take(key);
  if (node == nullptr) return;
  if (auto text = ReadText(*node, Path(key), 0, limit)) value = std::move(*text);
}

void JobReader::ReadTexts(const Node& node, const char* key, size_t most, size_t limit,
                          std::vector<std::string>& value) {
  if (node.kind != Node::Kind::kList) {
    return RefuseAt(node.line, Path(key),
                    "must be a list such as [one, two], not " + Describe(node));
  }
  if (node.children.size() > most) {
    return RefuseAt(node.line, Path(key),
                    "has " + std::to_string(node.children.size()) + " entries: at most " +
                        std::to_string(most));
  }
  value.clear();
  for (size_t i = 0; i < node.children.size(); ++i) {
    const std::string path = Path(key) + "[" + std::to_string(i) + "]";
    if (auto text = ReadText(node.children[i], path, 1, limit)) value.push_back(std::move(*text));
  }
}

void JobReader::TextList(const char* key, std::vector<std::string>& value, size_t limit,
                         size_t most) {
  const Node* node = Take(key);
  if (node != nullptr) ReadTexts(*node, key, most, limit, value);
}

// Two forms: a list of jobs, or a map with a condition.
void JobReader::After(const char* key, AfterSpec& value) {
  const Node* node = map_ == nullptr ? nullptr : Find(*map_, key);
  if (node != nullptr && node->kind == Node::Kind::kList) {
    return ReadTexts(*Take(key), key, kMaxDependencies, kMaxJobIdBytes, value.jobs);
  }
  Section(key, [&] {
    known_ = {"jobs", "when"};
    const Node* jobs = Find(*node, "jobs");
    if (jobs == nullptr || jobs->children.empty()) {
      RefuseAt(node->line, "after", "names no jobs: {jobs: [JOB, ...], when: success}");
    } else {
      ReadTexts(*jobs, "jobs", kMaxDependencies, kMaxJobIdBytes, value.jobs);
    }
    const Node* when = Find(*node, "when");
    if (when == nullptr) return;
    const bool known = when->kind == Node::Kind::kScalar &&
                       (when->text == "success" || when->text == "end" || when->text == "failure");
    if (known) {
      value.when = when->text;
    } else {
      RefuseAt(when->line, Path("when"), "must be success, end or failure, not " + Describe(*when));
    }
  });
}

void JobReader::Topology(const char* key, TopologySpec& value) {
  const Node* node = map_ == nullptr ? nullptr : Find(*map_, key);
  if (node == nullptr || node->kind != Node::Kind::kMap) {
    return Text(key, value.required, kMaxNameBytes);
  }
  Section(key, [&] {
    Text("required", value.required, kMaxNameBytes);
    Text("preferred", value.preferred, kMaxNameBytes);
    Section("slice", [&] {
      Whole("nodes", value.slice.nodes, 2, 100'000);
      Text("level", value.slice.level, kMaxNameBytes);
    });
    Flag("rail_aligned", value.rail_aligned);
    Spread("spread", value.spread);
  });
}

void JobReader::Spread(const char* key, SpreadSpec& value) {
  const Node* node = map_ == nullptr ? nullptr : Find(*map_, key);
  if (node == nullptr || node->kind != Node::Kind::kMap) {
    return Text(key, value.level, kMaxNameBytes);
  }
  Section(key, [&] {
    Text("level", value.level, kMaxNameBytes);
    Whole("at_most", value.at_most, 1, 100'000);
  });
}

void JobReader::Names(const char* key, std::vector<std::string>& value) {
  const Node* node = Take(key);
  if (node == nullptr || node->kind == Node::Kind::kNull) return;
  if (node->kind != Node::Kind::kScalar) {
    return ReadTexts(*node, key, kMaxLabels, kMaxNameBytes, value);
  }
  if (auto text = ReadText(*node, Path(key), 1, kMaxNameBytes)) value = {std::move(*text)};
}

void JobReader::Labels(const char* key, std::map<std::string, std::string>& value) {
  const Node* node = Take(key);
  if (node == nullptr || node->kind == Node::Kind::kNull) return;
  if (node->kind != Node::Kind::kMap) {
    return RefuseAt(node->line, Path(key),
                    "must be a map such as {label: value}, not " + Describe(*node));
  }
  if (node->children.size() > kMaxLabels) {
    return RefuseAt(node->line, Path(key),
                    "has " + std::to_string(node->children.size()) + " labels: at most " +
                        std::to_string(kMaxLabels));
  }
  value.clear();
  for (const Node& child : node->children) {
    const std::string path = Path(key) + "." + child.key;
    if (child.key.empty() || child.key.size() > kMaxNameBytes) {
      RefuseAt(child.key_line, path,
               "a label's name has 1 to " + std::to_string(kMaxNameBytes) + " bytes");
    } else if (auto text = ReadText(child, path, 1, kMaxNameBytes)) {
      value[child.key] = std::move(*text);
    }
  }
}

void JobReader::ReadVariable(const Node& node, std::map<std::string, std::string>& value) {
  const std::string path = "environment." + node.key;
  const bool reserved = std::find(kReservedVariables.begin(), kReservedVariables.end(), node.key) !=
                        kReservedVariables.end();
  if (!IsVariableName(node.key)) {
    return RefuseAt(node.key_line, path,
                    "not a variable's name: a letter or '_', then letters, digits and '_'");
  }
  if (reserved) return RefuseAt(node.key_line, path, "is set for each worker by longhaul itself");
  if (auto text = ReadText(node, path, 0, kMaxEnvironmentBytes)) value[node.key] = *text;
}

void JobReader::Environment(const char* key, std::map<std::string, std::string>& value) {
  const Node* node = Take(key);
  if (node == nullptr || node->kind == Node::Kind::kNull) return;
  if (node->kind != Node::Kind::kMap) {
    return RefuseAt(node->line, Path(key),
                    "must be a map such as {NAME: value}, not " + Describe(*node));
  }
  if (node->children.size() > kMaxListItems) {
    return RefuseAt(node->line, Path(key),
                    "has more than " + std::to_string(kMaxListItems) + " variables");
  }
  for (const Node& child : node->children) ReadVariable(child, value);
}

void JobReader::ReadFaults(const Node& node, const char* key, std::vector<PlannedFault>& value) {
  const auto text = ReadText(node, Path(key), 1, kMaxArgumentBytes);
  if (!text) return;
  const Result<std::vector<PlannedFault>> faults = ParseFaultPlan(*text);
  if (!faults.ok()) return RefuseAt(node.line, Path(key), faults.status().message());
  value.insert(value.end(), faults->begin(), faults->end());
}

void JobReader::Faults(const char* key, std::vector<PlannedFault>& value) {
  const Node* node = Take(key);
  if (node == nullptr || node->kind == Node::Kind::kNull) return;
  if (node->kind == Node::Kind::kList) {
    if (node->children.size() > kMaxListItems) {
      return RefuseAt(node->line, Path(key), "has more than 1,000 faults");
    }
    for (const Node& child : node->children) ReadFaults(child, key, value);
  } else {
    ReadFaults(*node, key, value);
  }
  if (value.size() > kMaxListItems) RefuseAt(node->line, Path(key), "has more than 1,000 faults");
}

}  // namespace longhaul::spec::internal
