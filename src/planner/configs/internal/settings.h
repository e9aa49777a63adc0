// The settings of a file by name, in any format: read one by one, the rest reported.
//
// A value is a text or a list of texts; a switch has no value. The last one of a name counts, as in
// the frameworks. Mistakes are collected, each with the setting's name, the value and a remedy.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/status.h"

namespace longhaul::planner::configs::internal {

class Settings {
 public:
  // `before` is the prefix of a name in the file: "--" for options.
  Settings(std::string source, std::string before)
      : source_(std::move(source)), before_(std::move(before)) {}

  void Add(const std::string& name, std::vector<std::string> values);

  // Returns whether it is present, and marks it as known, as all functions below do.
  bool Has(std::string_view name);
  // True where it is present, unless its value is false.
  bool Switch(std::string_view name);
  std::optional<uint64_t> Whole(std::string_view name, uint64_t least, uint64_t most);
  // Writes to `value`, which is unchanged where the setting is absent.
  void Whole(std::string_view name, uint64_t least, uint64_t most, uint32_t& value);
  std::optional<double> Real(std::string_view name, double least, double most);
  std::optional<std::string> Text(std::string_view name);
  std::vector<std::string> List(std::string_view name);
  template <typename T>
  std::optional<T> Word(std::string_view name,
                        std::span<const std::pair<std::string_view, T>> words) {
    std::vector<std::string_view> known;
    for (const auto& [word, meaning] : words) known.push_back(word);
    const auto index = WordIndex(name, known);
    if (!index) return std::nullopt;
    return words[*index].second;
  }

  void Refuse(std::string_view name, const std::string& why);
  std::string Named(std::string_view name) const { return before_ + std::string(name); }

  // The settings that were not read: names of `ignored` (a star ends a prefix: "log-*") are
  // counted; others are listed with the nearest known name, at most 30.
  size_t PassOver(std::span<const std::string_view> ignored, std::vector<std::string>& unknown);
  Status status() const;

 private:
  const std::vector<std::string>* Take(std::string_view name);
  std::optional<std::string> One(std::string_view name);
  std::optional<size_t> WordIndex(std::string_view name,
                                  const std::vector<std::string_view>& known);

  std::string source_;
  std::string before_;
  std::map<std::string, std::vector<std::string>, std::less<>> values_;
  std::set<std::string, std::less<>> known_;
  std::vector<std::string> mistakes_;
};

}  // namespace longhaul::planner::configs::internal
