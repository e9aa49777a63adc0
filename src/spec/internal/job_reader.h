// The visitor that fills a JobSpec from a tree (internal/job_schema.h lists the keys).
//
// It continues after a mistake, so that a person sees all mistakes at once.
#pragma once

#include <cstdint>
#include <functional>
#include <limits>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "spec/internal/document.h"
#include "spec/internal/job_schema.h"

namespace longhaul::spec::internal {

class JobReader {
 public:
  // `root` outlives the reader.
  JobReader(const Node& root, std::string_view source);

  void Section(const char* key, const std::function<void()>& body);
  void Constant(const char* key, const char* text);

  template <typename T>
  void Whole(const char* key, T& value, uint64_t min, uint64_t max) {
    if (const Node* node = Take(key)) {
      static_assert(std::numeric_limits<T>::is_integer && !std::numeric_limits<T>::is_signed);
      if (const auto number = ReadWhole(*node, key, "", min, max)) value = static_cast<T>(*number);
    }
  }
  template <typename T>
  void AutoWhole(const char* key, std::optional<T>& value, uint64_t min, uint64_t max) {
    const Node* node = Take(key);
    if (node == nullptr || node->kind == Node::Kind::kNull || node->text == "auto") return;
    if (const auto number = ReadWhole(*node, key, "auto, or ", min, max)) {
      value = static_cast<T>(*number);
    }
  }
  void Flag(const char* key, bool& value);
  void Real(const char* key, double& value, const RealRange& range);
  void Size(const char* key, uint64_t& value, uint64_t min, uint64_t max);
  void AutoSize(const char* key, std::optional<uint64_t>& value, uint64_t min, uint64_t max);
  void Text(const char* key, std::string& value, size_t limit);
  void TextList(const char* key, std::vector<std::string>& value, size_t limit,
                size_t most = kMaxListItems);
  void After(const char* key, AfterSpec& value);
  void Topology(const char* key, TopologySpec& value);
  void Names(const char* key, std::vector<std::string>& value);
  void Labels(const char* key, std::map<std::string, std::string>& value);
  void Environment(const char* key, std::map<std::string, std::string>& value);
  void Faults(const char* key, std::vector<PlannedFault>& value);

  // Rejects the keys of the root that were not visited.
  void RefuseUnknown() { RefuseUnknown(root_); }

  // Adds a mistake that concerns several keys. The line is that of `path` ("train.steps"), or of
  // its section, or none.
  void Refuse(std::string_view path, const std::string& why);
  bool Has(std::string_view path) const { return FindPath(path) != nullptr; }

  // Ok, or all mistakes by line.
  Status Finish() const;

 private:
  void Spread(const char* key, SpreadSpec& value);
  const Node* Take(const char* key);
  const Node* FindPath(std::string_view path) const;
  std::string Path(std::string_view key) const;
  void RefuseAt(int line, std::string_view path, const std::string& why);
  void RefuseUnknown(const Node& map);
  std::optional<uint64_t> ReadWhole(const Node& node, const char* key, std::string_view before,
                                    uint64_t min, uint64_t max);
  std::optional<uint64_t> ReadSize(const Node& node, const char* key, std::string_view before,
                                   uint64_t min, uint64_t max);
  std::optional<std::string> ReadText(const Node& node, const std::string& path, size_t min,
                                      size_t limit);
  // Reads a list; rejects more than `most` entries and texts beyond `limit` bytes.
  void ReadTexts(const Node& node, const char* key, size_t most, size_t limit,
                 std::vector<std::string>& value);
  void ReadVariable(const Node& node, std::map<std::string, std::string>& value);
  void ReadFaults(const Node& node, const char* key, std::vector<PlannedFault>& value);

  const Node& root_;
  const Node* map_;                      // its keys are visited now; null: the section is absent
  std::string section_;                  // "train", or empty at the root
  std::vector<std::string_view> known_;  // visited so far in map_
  const std::string source_;
  std::multimap<int, std::string> mistakes_;  // by line
};

// Reads and checks one job (spec/job/job.h, ParseJob).
Result<JobSpec> ReadJob(const Node& root, std::string_view source);

}  // namespace longhaul::spec::internal
