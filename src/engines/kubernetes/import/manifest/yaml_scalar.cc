#include "engines/kubernetes/import/manifest/yaml_scalar.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>

#include "base/text.h"
#include "base/utf8.h"

namespace longhaul::engines::kubernetes {
namespace {

bool IsOneOf(std::string_view text, std::initializer_list<std::string_view> words) {
  return std::ranges::find(words, text) != words.end();
}

bool AreDigits(std::string_view text, std::string_view digits) {
  return !text.empty() && text.find_first_not_of(digits) == text.npos;
}

// [0-9]*, a point or none, an exponent or none, with a digit before the exponent.
bool LooksLikeReal(std::string_view text) {
  const size_t exponent = text.find_first_of("eE");
  std::string_view mantissa = text.substr(0, exponent);
  if (exponent != text.npos) {
    std::string_view rest = text.substr(exponent + 1);
    if (rest.starts_with('+') || rest.starts_with('-')) rest.remove_prefix(1);
    if (!AreDigits(rest, "0123456789")) return false;
  }
  const size_t point = mantissa.find('.');
  if (point == mantissa.npos) {
    return exponent != text.npos && AreDigits(mantissa, "0123456789");
  }
  const std::string_view before = mantissa.substr(0, point);
  const std::string_view after = mantissa.substr(point + 1);
  return (!before.empty() || !after.empty()) &&
         (before.empty() || AreDigits(before, "0123456789")) &&
         (after.empty() || AreDigits(after, "0123456789"));
}

std::optional<JobJson> WholeNumber(bool negative, std::string_view digits, int base) {
  uint64_t value = 0;
  const auto [end, error] =
      std::from_chars(digits.data(), digits.data() + digits.size(), value, base);
  if (error != std::errc() || end != digits.data() + digits.size()) return std::nullopt;
  if (!negative) return JobJson(value);
  if (value > static_cast<uint64_t>(INT64_MAX)) return std::nullopt;
  return JobJson(-static_cast<int64_t>(value));
}

uint32_t CodeOf(std::string_view character) {
  uint32_t code = static_cast<unsigned char>(character[0]);
  if (character.size() == 1) return code;
  code &= (0x7Fu >> character.size());
  for (const char c : character.substr(1)) {
    code = code << 6 | (static_cast<unsigned char>(c) & 0x3Fu);
  }
  return code;
}

// Whether YAML permits a character as it is, on one line. U+FEFF is the mark of a byte order.
bool IsPrintable(uint32_t code) {
  if (code < 0x7F) return code >= ' ';
  return code >= 0xA0 && code != 0x2028 && code != 0x2029 && code != 0xFEFF && code != 0xFFFE &&
         code != 0xFFFF;
}

void AppendEscaped(uint32_t code, std::string* out) {
  static constexpr std::string_view kHex = "0123456789abcdef";
  const int digits = code < 0x100 ? 2 : code < 0x10000 ? 4 : 8;
  *out += code < 0x100 ? "\\x" : code < 0x10000 ? "\\u" : "\\U";
  for (int i = digits - 1; i >= 0; --i) *out += kHex[code >> (4 * i) & 0xFu];
}

std::string Quoted(std::string_view text) {
  std::string quoted = "\"";
  for (size_t at = 0; at < text.size();) {
    const size_t length = std::max<size_t>(1, Utf8CharacterLength(text, at));
    const std::string_view character = text.substr(at, length);
    at += length;
    if (character == "\"" || character == "\\") {
      quoted += '\\';
      quoted += character;
    } else if (character == "\n") {
      quoted += "\\n";
    } else if (IsPrintable(CodeOf(character))) {
      quoted += character;
    } else {
      AppendEscaped(CodeOf(character), &quoted);
    }
  }
  return quoted + '"';
}

}  // namespace

std::optional<JobJson> PlainScalarValue(std::string_view text) {
  if (IsOneOf(text, {"", "~", "null", "Null", "NULL"})) return JobJson();
  if (IsOneOf(text, {"y", "Y", "yes", "Yes", "YES", "true", "True", "TRUE", "on", "On", "ON"})) {
    return JobJson(true);
  }
  if (IsOneOf(text, {"n", "N", "no", "No", "NO", "false", "False", "FALSE", "off", "Off", "OFF"})) {
    return JobJson(false);
  }
  const bool negative = text.starts_with('-');
  std::string_view rest = text;
  if (negative || text.starts_with('+')) rest.remove_prefix(1);
  if (IsOneOf(rest, {".inf", ".Inf", ".INF"}) || IsOneOf(text, {".nan", ".NaN", ".NAN"})) {
    return std::nullopt;
  }
  if (rest.starts_with("0x") && AreDigits(rest.substr(2), "0123456789abcdefABCDEF")) {
    return WholeNumber(negative, rest.substr(2), 16);
  }
  if (rest.starts_with("0b") && AreDigits(rest.substr(2), "01")) {
    return WholeNumber(negative, rest.substr(2), 2);
  }
  if (rest.starts_with("0o") && AreDigits(rest.substr(2), "01234567")) {
    return WholeNumber(negative, rest.substr(2), 8);
  }
  if (rest.size() > 1 && rest.front() == '0' && AreDigits(rest, "01234567")) {
    return WholeNumber(negative, rest, 8);
  }
  if (AreDigits(rest, "0123456789")) return WholeNumber(negative, rest, 10);
  if (LooksLikeReal(rest)) {
    const Result<double> number =
        ParseDouble(rest.starts_with('.') ? "0" + std::string(rest) : std::string(rest));
    if (!number.ok()) return std::nullopt;
    return JobJson(negative ? -*number : *number);
  }
  return JobJson(text);
}

std::string ScalarOfText(std::string_view text) {
  static constexpr std::string_view kSafe =
      "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_./-";
  // A plain text that begins with a digit might be a number or a date.
  const bool begins_well = !text.empty() &&
                           (IsLetterOrDigit(text.front()) || text.front() == '/') &&
                           !(text.front() >= '0' && text.front() <= '9');
  bool safe = begins_well;
  for (size_t i = 0; safe && i < text.size(); ++i) {
    // A colon begins a value only where a blank follows.
    const bool inner_colon = text[i] == ':' && i + 1 < text.size() && text[i + 1] != ' ';
    safe = inner_colon || kSafe.find(text[i]) != kSafe.npos;
  }
  if (safe) {
    const std::optional<JobJson> value = PlainScalarValue(text);
    if (value.has_value() && value->is_string()) return std::string(text);
  }
  return Quoted(text);
}

}  // namespace longhaul::engines::kubernetes
