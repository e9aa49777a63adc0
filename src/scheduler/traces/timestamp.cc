#include "scheduler/traces/timestamp.h"

#include <array>
#include <chrono>

namespace longhaul::scheduler {

namespace {

// The days since 1970 of a date of the Gregorian calendar (Hinnant, "chrono-compatible low-level
// date algorithms", as std::chrono has it).
std::optional<int64_t> DaysSince1970(int64_t year, int64_t month, int64_t day) {
  const std::chrono::year_month_day date{std::chrono::year(static_cast<int>(year)),
                                         std::chrono::month(static_cast<unsigned>(month)),
                                         std::chrono::day(static_cast<unsigned>(day))};
  if (!date.ok()) return std::nullopt;
  return std::chrono::sys_days(date).time_since_epoch().count();
}

}  // namespace

std::optional<int64_t> ParseTimestamp(std::string_view text, char separator) {
  if (text.size() != 19) return std::nullopt;
  constexpr std::string_view kForm = "dddd-dd-dd dd:dd:dd";
  std::array<int64_t, 6> numbers{};
  size_t number = 0;
  for (size_t i = 0; i < text.size(); ++i) {
    if (kForm[i] != 'd') {
      if (text[i] != (kForm[i] == ' ' ? separator : kForm[i])) return std::nullopt;
      ++number;
    } else if (text[i] < '0' || text[i] > '9') {
      return std::nullopt;
    } else {
      numbers[number] = numbers[number] * 10 + (text[i] - '0');
    }
  }
  const auto days = DaysSince1970(numbers[0], numbers[1], numbers[2]);
  if (!days || numbers[3] > 23 || numbers[4] > 59 || numbers[5] > 60) return std::nullopt;
  return *days * 86'400 + numbers[3] * 3'600 + numbers[4] * 60 + numbers[5];
}

}  // namespace longhaul::scheduler
