#include "engines/kubernetes/protocol/access/base64.h"

#include <algorithm>
#include <cstdint>

namespace longhaul::engines::kubernetes {
namespace {

constexpr std::string_view kAlphabet =
    "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

}  // namespace

std::optional<std::string> DecodeBase64(std::string_view text) {
  std::string decoded;
  uint32_t bits = 0;
  size_t digits = 0;
  size_t padding = 0;
  for (const char c : text) {
    if (c == '\n' || c == '\r' || c == ' ' || c == '\t') continue;
    if (c == '=') {
      ++padding;
      continue;
    }
    const size_t value = kAlphabet.find(c);
    if (value == kAlphabet.npos || padding > 0) return std::nullopt;
    bits = (bits << 6) | static_cast<uint32_t>(value);
    ++digits;
    if (digits % 4 == 1) continue;  // six bits: no byte yet
    const size_t unused = digits % 4 == 0 ? 0 : 8 - 2 * (digits % 4);
    decoded.push_back(static_cast<char>((bits >> unused) & 0xFF));
  }
  if (padding > 2 || (digits + padding) % 4 != 0) return std::nullopt;
  return decoded;
}

std::string EncodeBase64(std::string_view bytes) {
  std::string text;
  for (size_t i = 0; i < bytes.size(); i += 3) {
    const size_t count = std::min<size_t>(3, bytes.size() - i);
    uint32_t bits = 0;
    for (size_t k = 0; k < 3; ++k) {
      bits = (bits << 8) | (k < count ? static_cast<unsigned char>(bytes[i + k]) : 0u);
    }
    for (size_t k = 0; k < 4; ++k) {
      text.push_back(k <= count ? kAlphabet[(bits >> (18 - 6 * k)) & 63] : '=');
    }
  }
  return text;
}

std::string EncodeBase64Url(std::string_view bytes) {
  std::string text = EncodeBase64(bytes);
  while (text.ends_with('=')) text.pop_back();
  std::replace(text.begin(), text.end(), '+', '-');
  std::replace(text.begin(), text.end(), '/', '_');
  return text;
}

// Whatever the lenient decoder accepts beyond the one text of these bytes is refused by comparison.
std::optional<std::string> DecodeBase64Url(std::string_view text) {
  std::string standard(text);
  std::replace(standard.begin(), standard.end(), '-', '+');
  std::replace(standard.begin(), standard.end(), '_', '/');
  standard.append((4 - standard.size() % 4) % 4, '=');
  std::optional<std::string> decoded = DecodeBase64(standard);
  if (!decoded || EncodeBase64Url(*decoded) != text) return std::nullopt;
  return decoded;
}

}  // namespace longhaul::engines::kubernetes
