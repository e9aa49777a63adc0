// UTF-8: outside text may hold any bytes, and protobuf and JSON reject malformed text.
#pragma once

#include <string>
#include <string_view>

namespace longhaul {

// The length in bytes of the character that begins at `at`; 0 when no well-formed one begins there
// (RFC 3629: no surrogates, no overlong forms). Requires at < text.size().
size_t Utf8CharacterLength(std::string_view text, size_t at);

// Whether the whole of `text` is well-formed.
bool IsUtf8(std::string_view text);

// The text with U+FFFD in place of each byte that belongs to no well-formed character.
std::string ToValidUtf8(std::string_view text);

}  // namespace longhaul
