// Small text encodings that the file formats share.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace longhaul::checkpoint::internal {

// Returns 16 hexadecimal digits in lower case. The inverse returns nothing for any other text.
std::string Hex(uint64_t value);
std::optional<uint64_t> FromHex(std::string_view text);

// A JSON string. Requires UTF-8.
std::string Quoted(const std::string& text);

}  // namespace longhaul::checkpoint::internal
