#include "base/text.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdarg>
#include <cstdio>
#include <cstdlib>
#include <utility>

namespace longhaul {

std::vector<std::string_view> Split(std::string_view text, char separator) {
  std::vector<std::string_view> parts;
  size_t begin = 0;
  while (true) {
    const size_t end = text.find(separator, begin);
    parts.push_back(text.substr(begin, end == std::string_view::npos ? end : end - begin));
    if (end == std::string_view::npos) return parts;
    begin = end + 1;
  }
}

std::string_view Trim(std::string_view text) {
  constexpr std::string_view kSpace = " \t\r\n\f\v";
  const size_t begin = text.find_first_not_of(kSpace);
  if (begin == std::string_view::npos) return {};
  return text.substr(begin, text.find_last_not_of(kSpace) - begin + 1);
}

std::string Join(const std::vector<std::string>& parts, std::string_view separator) {
  std::string joined;
  for (const std::string& part : parts) {
    if (&part != parts.data()) joined += separator;
    joined += part;
  }
  return joined;
}

namespace {

template <typename T>
Result<T> ParseNumber(std::string_view text, const char* kind) {
  T value{};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error == std::errc::result_out_of_range) {
    return OutOfRange("'" + Printable(text) + "' is out of range for " + kind);
  }
  if (error != std::errc() || end != text.data() + text.size()) {
    return InvalidArgument("'" + Printable(text) + "' is not " + kind);
  }
  return value;
}

}  // namespace

Result<int64_t> ParseInt64(std::string_view text) {
  return ParseNumber<int64_t>(text, "a whole number");
}

Result<uint64_t> ParseUint64(std::string_view text) {
  return ParseNumber<uint64_t>(text, "a whole number of zero or more");
}

Result<double> ParseDouble(std::string_view text) {
  Result<double> value = ParseNumber<double>(text, "a number");
  if (value.ok() && !std::isfinite(*value)) {
    return InvalidArgument("'" + Printable(text) + "' is not a finite number");
  }
  return value;
}

Result<Duration> ParseDuration(std::string_view text) {
  static constexpr struct {
    std::string_view unit;
    double seconds;
  } kUnits[] = {{"ns", 1e-9}, {"us", 1e-6}, {"ms", 1e-3}, {"min", 60},
                {"s", 1},     {"h", 3600},  {"d", 86400}};
  const size_t split = text.find_first_not_of("0123456789.");
  const std::string_view unit = split == std::string_view::npos ? "" : Trim(text.substr(split));
  for (const auto& row : kUnits) {
    if (unit != row.unit) continue;
    const Result<double> number = ParseDouble(text.substr(0, split));
    if (!number.ok()) break;
    if (*number * row.seconds > 1e9) return OutOfRange("'" + Printable(text) + "' is too long");
    return DurationFromSeconds(*number * row.seconds);
  }
  return InvalidArgument("'" + Printable(text) +
                         "' is not a duration: write a number and ns, us, ms, s, min, h or d");
}

namespace {

// Edits from a to b, where two swapped neighbours are one edit ("optimal string alignment",
// Damerau, CACM 1964), row by row.
size_t EditDistance(std::string_view a, std::string_view b) {
  std::vector<size_t> before(b.size() + 1);
  std::vector<size_t> above(b.size() + 1);
  std::vector<size_t> row(b.size() + 1);
  for (size_t j = 0; j <= b.size(); ++j) row[j] = j;
  for (size_t i = 1; i <= a.size(); ++i) {
    std::swap(before, above);
    std::swap(above, row);
    row[0] = i;
    for (size_t j = 1; j <= b.size(); ++j) {
      const size_t replaced = above[j - 1] + (a[i - 1] == b[j - 1] ? 0 : 1);
      row[j] = std::min({replaced, row[j - 1] + 1, above[j] + 1});
      const bool swapped = i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1];
      if (swapped) row[j] = std::min(row[j], before[j - 2] + 1);
    }
  }
  return row[b.size()];
}

}  // namespace

std::optional<std::string_view> Nearest(std::string_view word,
                                        std::span<const std::string_view> known) {
  std::optional<std::string_view> best;
  size_t best_distance = std::max<size_t>(1, word.size() / 3) + 1;
  if (word.size() > 64) return best;
  for (const std::string_view candidate : known) {
    const size_t distance = EditDistance(word, candidate);
    if (distance < best_distance) {
      best_distance = distance;
      best = candidate;
    }
  }
  return best;
}

bool ContainsAny(std::string_view text, std::initializer_list<std::string_view> words) {
  return std::any_of(words.begin(), words.end(), [&](std::string_view word) {
    return text.find(word) != std::string_view::npos;
  });
}

std::string WithThousands(int64_t number) {
  const std::string digits = std::to_string(number);
  const size_t sign = number < 0 ? 1 : 0;
  std::string text;
  for (size_t i = 0; i < digits.size(); ++i) {
    if (i > sign && (digits.size() - i) % 3 == 0) text += ',';
    text += digits[i];
  }
  return text;
}

std::string Counted(uint64_t number, std::string_view noun) {
  const std::string text = WithThousands(static_cast<int64_t>(number)) + " " + std::string(noun);
  if (number == 1) return text;
  return text + (noun.ends_with("s") || noun.ends_with("ch") ? "es" : "s");
}

std::string Printable(std::string_view text, size_t limit) {
  std::string printable;
  for (const char c : text) {
    if (printable.size() >= limit) return printable + "...";
    if (c >= 0x20 && c < 0x7f) {
      printable += c;
    } else {
      char escaped[8];
      std::snprintf(escaped, sizeof(escaped), "\\x%02x", static_cast<unsigned char>(c));
      printable += escaped;
    }
  }
  return printable;
}

bool IsLetterOrDigit(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
}

void AppendFormat(std::string* out, const char* format, ...) {
  char text[1024];
  va_list arguments;
  va_start(arguments, format);
  std::vsnprintf(text, sizeof(text), format, arguments);
  va_end(arguments);
  *out += text;
}

}  // namespace longhaul
