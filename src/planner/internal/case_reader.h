// Reads a JSON object key by key, in the order of spec/model/model_schema.h: an absent or null
// value is left unchanged and its path is recorded; mistakes are collected, and keys that were not
// visited are reported.
//
// Whole numbers may be written as 8.0: published tables pass through spreadsheets.
#pragma once

#include <cstdint>
#include <limits>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "base/status.h"

namespace longhaul::planner::internal {

class CaseReader {
 public:
  // `root` outlives the reader.
  explicit CaseReader(const nlohmann::json& root);

  void Text(const char* key, std::string& value, size_t most_bytes);
  template <typename T>
  void Whole(const char* key, T& value, uint64_t min, uint64_t max) {
    static_assert(std::is_unsigned_v<T>);
    if (const auto number = ReadWhole(key, min, max)) value = static_cast<T>(*number);
  }
  void Flag(const char* key, bool& value);
  void Real(const char* key, std::optional<double>& value, double above, double most);
  template <typename T, typename WordList>
  void Word(const char* key, T& value, const WordList& words) {
    std::vector<std::string_view> known;
    for (const auto& [word, meaning] : words) known.push_back(word);
    if (const auto index = ReadWord(key, known)) value = words[*index].second;
  }
  template <typename T, typename Body>
  void Section(const char* key, std::optional<T>& value, const Body& body) {
    if (!Enter(key)) return;
    value.emplace();
    body(*value);
    Leave();
  }
  // A list of whole numbers.
  void WholeList(const char* key, std::vector<uint32_t>& value, uint64_t max, size_t most);
  void TextList(const char* key, std::vector<std::string>& value, size_t most);

  // Visits a map that always applies; if it is absent, all its keys are.
  template <typename Body>
  void Map(const char* key, const Body& body) {
    const bool entered = Enter(key);
    if (!entered) EnterNothing(key);
    body();
    Leave();
  }

  bool absent(const std::string& path) const { return absent_.contains(path); }
  void Refuse(const std::string& path, const std::string& why);
  // Reports the keys of the root that were not visited. Maps do this when they are left.
  void Finish();
  const std::vector<std::string>& unknown() const { return unknown_; }
  Status status() const;

 private:
  struct Level {
    const nlohmann::json* object;  // null: absent
    std::string path;              // "model.experts."
    std::vector<std::string_view> known;
  };

  const nlohmann::json* Take(const char* key);
  std::optional<uint64_t> ReadWhole(const char* key, uint64_t min, uint64_t max);
  std::optional<size_t> ReadWord(const char* key, const std::vector<std::string_view>& known);
  bool Enter(const char* key);
  void EnterNothing(const char* key);
  void Leave();
  void ReportUnknown();
  std::string Path(std::string_view key) const { return levels_.back().path + std::string(key); }

  std::vector<Level> levels_;
  std::set<std::string> absent_;
  std::vector<std::string> unknown_;
  std::vector<std::string> mistakes_;
};

}  // namespace longhaul::planner::internal
