#include "planner/internal/case_reader.h"

#include <algorithm>
#include <cmath>

#include "base/text.h"

namespace longhaul::planner::internal {

namespace {

using Json = nlohmann::json;

constexpr size_t kMaxMistakes = 10;
constexpr size_t kMaxUnknown = 20;

std::string Describe(const Json& value) {
  if (value.is_string())
    return "the text '" + Printable(value.get_ref<const std::string&>(), 40) + "'";
  if (value.is_array()) return "a list";
  if (value.is_object()) return "a map";
  return Printable(value.dump(-1, ' ', false, Json::error_handler_t::replace), 40);
}

// The value as a whole number of at least zero. A fraction, a sign or 2^63 and more is none.
std::optional<uint64_t> AsWhole(const Json& value) {
  if (value.is_number_unsigned()) return value.get<uint64_t>();
  if (!value.is_number_float()) return std::nullopt;
  const double number = value.get<double>();
  if (!(number >= 0 && number < 0x1p63) || number != std::floor(number)) return std::nullopt;
  return static_cast<uint64_t>(number);
}

std::string Limits(uint64_t min, uint64_t max) {
  return WithThousands(static_cast<int64_t>(min)) + " to " +
         WithThousands(static_cast<int64_t>(max));
}

}  // namespace

CaseReader::CaseReader(const Json& root) { levels_.push_back({&root, "", {}}); }

const Json* CaseReader::Take(const char* key) {
  Level& level = levels_.back();
  level.known.push_back(key);
  if (level.object != nullptr) {
    const auto found = level.object->find(key);
    if (found != level.object->end() && !found->is_null()) return &*found;
  }
  absent_.insert(Path(key));
  return nullptr;
}

void CaseReader::Refuse(const std::string& path, const std::string& why) {
  if (mistakes_.size() < kMaxMistakes) mistakes_.push_back(path + ": " + why);
}

void CaseReader::Text(const char* key, std::string& value, size_t most_bytes) {
  const Json* json = Take(key);
  if (json == nullptr) return;
  if (!json->is_string()) return Refuse(Path(key), "must be a text, not " + Describe(*json));
  const auto& text = json->get_ref<const std::string&>();
  if (text.size() > most_bytes) {
    return Refuse(Path(key), "has " + std::to_string(text.size()) + " bytes: at most " +
                                 std::to_string(most_bytes));
  }
  value = text;
}

std::optional<uint64_t> CaseReader::ReadWhole(const char* key, uint64_t min, uint64_t max) {
  const Json* json = Take(key);
  if (json == nullptr) return std::nullopt;
  const auto number = AsWhole(*json);
  if (number && *number >= min && *number <= max) return number;
  Refuse(Path(key), json->is_number() ? Describe(*json) + " is out of range: " + Limits(min, max)
                                      : "must be a whole number (" + Limits(min, max) + "), not " +
                                            Describe(*json));
  return std::nullopt;
}

void CaseReader::Flag(const char* key, bool& value) {
  const Json* json = Take(key);
  if (json == nullptr) return;
  if (!json->is_boolean())
    return Refuse(Path(key), "must be true or false, not " + Describe(*json));
  value = json->get<bool>();
}

void CaseReader::Real(const char* key, std::optional<double>& value, double above, double most) {
  const Json* json = Take(key);
  if (json == nullptr) return;
  const double number = json->is_number() ? json->get<double>() : NAN;
  if (!(number > above && number <= most)) {
    return Refuse(Path(key), "must be a number above " + Describe(Json(above)) + " and at most " +
                                 Describe(Json(most)) + ", not " + Describe(*json));
  }
  value = number;
}

std::optional<size_t> CaseReader::ReadWord(const char* key,
                                           const std::vector<std::string_view>& known) {
  const Json* json = Take(key);
  if (json == nullptr) return std::nullopt;
  if (json->is_string()) {
    const auto& word = json->get_ref<const std::string&>();
    // Tables shout ("BF16"); the words themselves are lower case.
    const auto same = [&](std::string_view candidate) {
      return std::equal(candidate.begin(), candidate.end(), word.begin(), word.end(),
                        [](char a, char b) {
                          return a == (b >= 'A' && b <= 'Z' ? static_cast<char>(b - 'A' + 'a') : b);
                        });
    };
    const auto found = std::find_if(known.begin(), known.end(), same);
    if (found != known.end()) return static_cast<size_t>(found - known.begin());
  }
  std::string why = "must be one of " +
                    Join(std::vector<std::string>(known.begin(), known.end()), ", ") + ", not " +
                    Describe(*json);
  if (json->is_string()) {
    if (const auto nearest = Nearest(json->get_ref<const std::string&>(), known)) {
      why += ": did you mean '" + std::string(*nearest) + "'";
    }
  }
  Refuse(Path(key), why);
  return std::nullopt;
}

void CaseReader::WholeList(const char* key, std::vector<uint32_t>& value, uint64_t max,
                           size_t most) {
  const Json* json = Take(key);
  if (json == nullptr) return;
  if (!json->is_array() || json->size() > most) {
    return Refuse(Path(key), "must be a list of at most " + std::to_string(most) +
                                 " whole numbers, not " + Describe(*json));
  }
  value.clear();
  for (const Json& item : *json) {
    const auto number = AsWhole(item);
    if (!number || *number > max) {
      return Refuse(Path(key),
                    "must hold whole numbers (" + Limits(0, max) + "), not " + Describe(item));
    }
    value.push_back(static_cast<uint32_t>(*number));
  }
}

void CaseReader::TextList(const char* key, std::vector<std::string>& value, size_t most) {
  const Json* json = Take(key);
  if (json == nullptr) return;
  if (!json->is_array() || json->size() > most) {
    return Refuse(Path(key), "must be a list of at most " + std::to_string(most) + " texts, not " +
                                 Describe(*json));
  }
  value.clear();
  for (const Json& item : *json) {
    if (!item.is_string()) {
      return Refuse(Path(key), "must hold texts, not " + Describe(item));
    }
    value.push_back(item.get<std::string>());
  }
}

bool CaseReader::Enter(const char* key) {
  const Json* json = Take(key);
  if (json == nullptr) return false;
  if (!json->is_object()) {
    Refuse(Path(key), "must be a map, not " + Describe(*json));
    return false;
  }
  levels_.push_back({json, Path(key) + ".", {}});
  return true;
}

void CaseReader::EnterNothing(const char* key) {
  levels_.push_back({nullptr, Path(key) + ".", {}});
}

void CaseReader::Leave() {
  ReportUnknown();
  levels_.pop_back();
}

void CaseReader::ReportUnknown() {
  const Level& level = levels_.back();
  if (level.object == nullptr || !level.object->is_object()) return;
  for (const auto& [key, value] : level.object->items()) {
    if (std::find(level.known.begin(), level.known.end(), key) != level.known.end()) continue;
    if (unknown_.size() == kMaxUnknown) return;
    std::string line = Printable(level.path + key, 100);
    if (const auto nearest = Nearest(key, level.known)) {
      line += " (did you mean '" + std::string(*nearest) + "'?)";
    }
    unknown_.push_back(std::move(line));
  }
}

void CaseReader::Finish() { ReportUnknown(); }

Status CaseReader::status() const {
  return mistakes_.empty() ? Status() : InvalidArgument(Join(mistakes_, "; "));
}

}  // namespace longhaul::planner::internal
