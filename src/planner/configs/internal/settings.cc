#include "planner/configs/internal/settings.h"

#include <algorithm>
#include <cmath>

#include "base/text.h"

namespace longhaul::planner::configs::internal {
namespace {

constexpr size_t kMostMistakes = 12;
constexpr size_t kMostUnknown = 30;

bool Matches(std::string_view name, std::string_view pattern) {
  if (pattern.ends_with('*')) return name.starts_with(pattern.substr(0, pattern.size() - 1));
  return name == pattern;
}

bool IsTrue(std::string_view text) { return text == "true" || text == "True" || text == "1"; }
bool IsFalse(std::string_view text) { return text == "false" || text == "False" || text == "0"; }

}  // namespace

void Settings::Add(const std::string& name, std::vector<std::string> values) {
  values_[name] = std::move(values);
}

// A name counts as known once it has been looked up, whether or not the file has it. So no list of
// known names exists beside the reader, and `PassOver` must come last.
const std::vector<std::string>* Settings::Take(std::string_view name) {
  known_.emplace(name);
  const auto found = values_.find(name);
  return found == values_.end() ? nullptr : &found->second;
}

void Settings::Refuse(std::string_view name, const std::string& why) {
  if (mistakes_.size() < kMostMistakes) mistakes_.push_back(Named(name) + " " + why);
}

bool Settings::Has(std::string_view name) { return Take(name) != nullptr; }

bool Settings::Switch(std::string_view name) {
  const auto* values = Take(name);
  if (values == nullptr) return false;
  if (values->empty()) return true;
  if (values->size() == 1 && IsTrue(values->front())) return true;
  if (values->size() == 1 && IsFalse(values->front())) return false;
  Refuse(name, "must be true or false, not " + Printable(values->front(), 40));
  return false;
}

std::optional<std::string> Settings::One(std::string_view name) {
  const auto* values = Take(name);
  if (values == nullptr) return std::nullopt;
  if (values->size() != 1) {
    Refuse(name, "needs one value, not " + std::to_string(values->size()));
    return std::nullopt;
  }
  const std::string& value = values->front();
  // A variable of the shell that the script takes from its environment.
  if (!value.empty() && value.front() == '$') {
    Refuse(name, "is " + Printable(value, 60) + ", which the file does not set: write its value");
    return std::nullopt;
  }
  return value;
}

std::optional<double> Settings::Real(std::string_view name, double least, double most) {
  const auto text = One(name);
  if (!text) return std::nullopt;
  const Result<double> number = ParseDouble(*text);
  if (number.ok() && *number >= least && *number <= most) return *number;
  const auto figure = [](double value) {
    return value == std::floor(value) && std::abs(value) < 1e15
               ? WithThousands(static_cast<int64_t>(value))
               : std::to_string(value);
  };
  Refuse(name, "must be a number from " + figure(least) + " to " + figure(most) + ", not " +
                   Printable(*text, 40));
  return std::nullopt;
}

std::optional<uint64_t> Settings::Whole(std::string_view name, uint64_t least, uint64_t most) {
  const size_t mistakes = mistakes_.size();
  const auto number = Real(name, static_cast<double>(least), static_cast<double>(most));
  if (!number || mistakes_.size() != mistakes) return std::nullopt;
  if (*number == std::floor(*number)) return static_cast<uint64_t>(*number);
  Refuse(name, "must be a whole number, not " + Printable(values_.find(name)->second.front(), 40));
  return std::nullopt;
}

void Settings::Whole(std::string_view name, uint64_t least, uint64_t most, uint32_t& value) {
  if (const auto number = Whole(name, least, most)) value = static_cast<uint32_t>(*number);
}

std::optional<std::string> Settings::Text(std::string_view name) { return One(name); }

std::vector<std::string> Settings::List(std::string_view name) {
  const auto* values = Take(name);
  return values == nullptr ? std::vector<std::string>() : *values;
}

std::optional<size_t> Settings::WordIndex(std::string_view name,
                                          const std::vector<std::string_view>& known) {
  const auto text = One(name);
  if (!text) return std::nullopt;
  const auto found = std::find(known.begin(), known.end(), *text);
  if (found != known.end()) return static_cast<size_t>(found - known.begin());
  const auto meant = Nearest(*text, known);
  Refuse(name, "must be one of " +
                   Join(std::vector<std::string>(known.begin(), known.end()), ", ") + ", not " +
                   Printable(*text, 40) +
                   (meant ? ": did you mean " + std::string(*meant) + "?" : ""));
  return std::nullopt;
}

size_t Settings::PassOver(std::span<const std::string_view> ignored,
                          std::vector<std::string>& unknown) {
  const std::vector<std::string_view> known(known_.begin(), known_.end());
  size_t passed = 0;
  for (const auto& [name, values] : values_) {
    if (known_.contains(name)) continue;
    const bool pass = std::any_of(ignored.begin(), ignored.end(),
                                  [&](std::string_view pattern) { return Matches(name, pattern); });
    if (pass) {
      ++passed;
      continue;
    }
    if (unknown.size() >= kMostUnknown) continue;
    const auto meant = Nearest(name, known);
    unknown.push_back(Named(Printable(name, 80)) +
                      (meant ? " (did you mean " + Named(*meant) + "?)" : ""));
  }
  return passed;
}

Status Settings::status() const {
  if (mistakes_.empty()) return {};
  return InvalidArgument(source_ + ": " + Join(mistakes_, "; "));
}

}  // namespace longhaul::planner::configs::internal
