// Base64 (RFC 4648, section 4) as kubeconfig files have it, and base64url (section 5) as JSON Web
// Tokens have it.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace longhaul::engines::kubernetes {

// Decodes text with padding; line breaks and spaces within it are skipped. Nothing for other text.
std::optional<std::string> DecodeBase64(std::string_view text);

std::string EncodeBase64(std::string_view bytes);

// Decodes base64url without padding (RFC 7515). Nothing for other text: with spaces, or with bits
// set that no byte has, so that there is one text for each sequence of bytes.
std::optional<std::string> DecodeBase64Url(std::string_view text);

std::string EncodeBase64Url(std::string_view bytes);

}  // namespace longhaul::engines::kubernetes
