#include "base/instant_text.h"

#include <chrono>
#include <optional>

#include "base/text.h"

namespace longhaul {
namespace {

// Takes `digits` digits from the front of the text, after `before` if that is not zero.
std::optional<int> TakeDigits(std::string_view& text, size_t digits, char before) {
  std::string_view rest = text;
  if (before != 0) {
    if (!rest.starts_with(before)) return std::nullopt;
    rest.remove_prefix(1);
  }
  if (rest.size() < digits) return std::nullopt;
  int value = 0;
  for (const char c : rest.substr(0, digits)) {
    if (c < '0' || c > '9') return std::nullopt;
    value = 10 * value + (c - '0');
  }
  text = rest.substr(digits);
  return value;
}

// "T08:00Z", "T08:00:00.5Z": the time since midnight.
std::optional<Duration> TakeTimeOfDay(std::string_view text) {
  const auto hour = TakeDigits(text, 2, 'T');
  const auto minute = TakeDigits(text, 2, ':');
  if (!hour || !minute || *hour > 23 || *minute > 59) return std::nullopt;
  Duration time = std::chrono::hours(*hour) + std::chrono::minutes(*minute);
  if (const auto second = TakeDigits(text, 2, ':')) {
    if (*second > 59) return std::nullopt;
    time += std::chrono::seconds(*second);
    if (text.starts_with('.')) {
      const size_t end = text.find_first_not_of("0123456789", 1);
      const size_t digits = (end == std::string_view::npos ? text.size() : end) - 1;
      if (digits < 1 || digits > 9) return std::nullopt;
      int64_t fraction = *TakeDigits(text, digits, '.');
      for (size_t i = digits; i < 9; ++i) fraction *= 10;
      time += Duration(fraction);
    }
  }
  return text == "Z" ? std::optional(time) : std::nullopt;
}

}  // namespace

Result<Instant> ParseInstant(std::string_view text) {
  const Status wrong = InvalidArgument(
      "'" + Printable(text, 40) +
      "' is not a time in UTC: write 2026-01-31 or 2026-01-31T08:00:00Z, from 1970 to 2200");
  std::string_view rest = text;
  const auto year = TakeDigits(rest, 4, 0);
  const auto month = TakeDigits(rest, 2, '-');
  const auto day = TakeDigits(rest, 2, '-');
  if (!year || !month || !day || *year < 1970 || *year > 2200) return wrong;
  const std::chrono::year_month_day date{std::chrono::year(*year),
                                         std::chrono::month(static_cast<unsigned>(*month)),
                                         std::chrono::day(static_cast<unsigned>(*day))};
  if (!date.ok()) return wrong;
  const Instant midnight(std::chrono::sys_days(date).time_since_epoch());
  if (rest.empty()) return midnight;
  const auto time = TakeTimeOfDay(rest);
  if (!time) return wrong;
  return midnight + *time;
}

}  // namespace longhaul
