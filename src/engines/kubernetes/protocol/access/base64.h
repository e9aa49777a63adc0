// Base64 (RFC 4648, section 4) as kubeconfig files have it.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace longhaul::engines::kubernetes {

// Decodes text with padding; line breaks and spaces within it are skipped. Nothing for other text.
std::optional<std::string> DecodeBase64(std::string_view text);

std::string EncodeBase64(std::string_view bytes);

}  // namespace longhaul::engines::kubernetes
