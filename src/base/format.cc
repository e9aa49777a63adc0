#include "base/format.h"

#include <array>
#include <cmath>
#include <cstdio>

#include "base/time.h"
#include "base/xml.h"

namespace longhaul {
namespace {

// The length of the well-formed UTF-8 sequence at the start of `text`, 0 when there is none. Takes
// overlong forms and surrogates for malformed no further than terminals do: by the lead byte.
size_t SequenceLength(std::string_view text) {
  const auto lead = static_cast<unsigned char>(text.front());
  const size_t length = lead < 0x80                   ? 1
                        : lead >= 0xC2 && lead < 0xE0 ? 2
                        : lead >= 0xE0 && lead < 0xF0 ? 3
                        : lead >= 0xF0 && lead < 0xF5 ? 4
                                                      : 0;
  if (length == 0 || length > text.size()) return 0;
  for (size_t i = 1; i < length; ++i) {
    if ((static_cast<unsigned char>(text[i]) & 0xC0) != 0x80) return 0;
  }
  return length;
}

bool IsControl(std::string_view sequence) {
  const auto first = static_cast<unsigned char>(sequence.front());
  if (sequence.size() == 1) return first < 0x20 || first == 0x7F;
  // U+0080 to U+009F: some terminals read them as escape sequences.
  return sequence.size() == 2 && first == 0xC2 && static_cast<unsigned char>(sequence[1]) < 0xA0;
}

}  // namespace

std::string Decimal(double number, int digits) {
  if (!std::isfinite(number)) return "-";
  std::array<char, 64> buffer;
  const int length = std::snprintf(buffer.data(), buffer.size(), "%.*f", digits, number);
  if (length < 0 || static_cast<size_t>(length) >= buffer.size()) return "-";
  return std::string(buffer.data(), static_cast<size_t>(length));
}

std::string Compact(double number) {
  if (!std::isfinite(number)) return "-";
  constexpr std::array kSuffixes = {"", "k", "M", "G", "T", "P"};
  size_t suffix = 0;
  while (std::abs(number) >= 999.5 && suffix + 1 < kSuffixes.size()) {
    number /= 1000;
    ++suffix;
  }
  const double size = std::abs(number);
  const bool whole = suffix == 0 && number == std::round(number);
  const int digits = whole || size >= 99.95 ? 0 : size >= 9.995 ? 1 : 2;
  return Decimal(number, digits) + kSuffixes[suffix];
}

std::string Percent(double share, int digits) {
  return std::isfinite(share) ? Decimal(100 * share, digits) + " %" : "-";
}

std::string SecondsText(double seconds) {
  if (!(seconds >= 0) || seconds > 1e9) return "-";
  return ToString(DurationFromSeconds(seconds));
}

std::string Plural(uint64_t count, std::string_view noun) {
  return std::to_string(count) + " " + std::string(noun) + (count == 1 ? "" : "s");
}

std::string Harmless(std::string_view text) {
  std::string clean;
  clean.reserve(text.size());
  while (!text.empty()) {
    const size_t length = SequenceLength(text);
    if (length == 0) {
      clean += '?';
      text.remove_prefix(1);
      continue;
    }
    if (IsControl(text.substr(0, length))) {
      clean += ' ';
    } else {
      clean += text.substr(0, length);
    }
    text.remove_prefix(length);
  }
  return clean;
}

std::string Headline(std::string_view text) {
  constexpr std::string_view kTraceback = "Traceback (most recent call last):";
  while (text.ends_with('\n')) text.remove_suffix(1);
  const size_t last = text.rfind('\n');
  if (last == std::string_view::npos) return Harmless(text);
  std::string_view head = text.substr(0, text.find('\n'));
  const bool is_traceback = head.ends_with(kTraceback);
  if (is_traceback) head.remove_suffix(kTraceback.size());
  return Harmless(head) + (is_traceback ? "" : " … ") + Harmless(text.substr(last + 1));
}

size_t Width(std::string_view text) {
  size_t columns = 0;
  for (const char c : text) columns += (static_cast<unsigned char>(c) & 0xC0) != 0x80;
  return columns;
}

std::string Fit(std::string_view text, size_t columns) {
  if (Width(text) <= columns) return std::string(text);
  if (columns == 0) return "";
  size_t end = 0;
  for (size_t kept = 0; end < text.size(); ++end) {
    const bool starts = (static_cast<unsigned char>(text[end]) & 0xC0) != 0x80;
    if (starts && kept == columns - 1) break;
    kept += starts;
  }
  return std::string(text.substr(0, end)) + "…";
}

std::string EscapeXml(std::string_view text) { return XmlEscape(Harmless(text)); }

std::string EscapeMarkdown(std::string_view text) {
  std::string escaped;
  for (const char c : Harmless(text)) {
    if (std::string_view("\\`*_[]<>|#~$").find(c) != std::string_view::npos) escaped += '\\';
    escaped += c;
  }
  return escaped;
}

}  // namespace longhaul
