#include "checkpoint/internal/text_forms.h"

#include <nlohmann/json.hpp>

namespace longhaul::checkpoint::internal {
namespace {

constexpr std::string_view kDigits = "0123456789abcdef";

}  // namespace

std::string Hex(uint64_t value) {
  std::string text(16, '0');
  for (size_t i = text.size(); i-- > 0; value >>= 4) text[i] = kDigits[value & 15];
  return text;
}

std::optional<uint64_t> FromHex(std::string_view text) {
  if (text.size() != 16) return std::nullopt;
  uint64_t value = 0;
  for (const char c : text) {
    const size_t digit = kDigits.find(c);
    if (digit == std::string_view::npos) return std::nullopt;
    value = value << 4 | digit;
  }
  return value;
}

std::string Quoted(const std::string& text) {
  return nlohmann::json(text).dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

}  // namespace longhaul::checkpoint::internal
