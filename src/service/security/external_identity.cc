#include "service/security/external_identity.h"

#include <algorithm>

#include "base/text.h"

namespace longhaul::service {
namespace {

constexpr size_t kSignedTokenParts = 3;

bool IsBase64UrlText(std::string_view text) {
  return !text.empty() && std::all_of(text.begin(), text.end(), [](char c) {
    return IsLetterOrDigit(c) || c == '-' || c == '_';
  });
}

}  // namespace

bool IsSignedToken(std::string_view text) {
  if (text.size() > kMostSignedTokenBytes) return false;
  const std::vector<std::string_view> parts = Split(text, '.');
  return parts.size() == kSignedTokenParts &&
         std::all_of(parts.begin(), parts.end(), IsBase64UrlText);
}

}  // namespace longhaul::service
