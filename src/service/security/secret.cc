#include "service/security/secret.h"

#include <sys/random.h>

#include <algorithm>
#include <array>
#include <span>

#include "objects/signature.h"

namespace longhaul::service {

Result<std::string> MakeSecret(std::string_view prefix) {
  std::array<unsigned char, 32> random{};
  if (::getrandom(random.data(), random.size(), 0) != static_cast<ssize_t>(random.size())) {
    return InternalError("the system gives no random bytes");
  }
  static constexpr char kHex[] = "0123456789abcdef";
  std::string secret(prefix);
  for (const unsigned char byte : random) {
    secret += kHex[byte >> 4];
    secret += kHex[byte & 15];
  }
  return secret;
}

std::string HashOf(std::string_view text) {
  return objects::Sha256Hex(std::as_bytes(std::span(text.data(), text.size())));
}

bool IsHash(std::string_view text) {
  constexpr size_t kDigits = 64;
  return text.size() == kDigits && std::all_of(text.begin(), text.end(), [](char c) {
           return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f');
         });
}

// The time depends on the length of `a` only, so `a` must be the stored secret and not what a
// client has sent.
bool EqualInConstantTime(std::string_view a, std::string_view b) {
  unsigned difference = a.size() == b.size() ? 0 : 1;
  // Over the length of `a`, whatever `b` is.
  for (size_t i = 0; i < a.size(); ++i) {
    const auto other = static_cast<unsigned char>(b.empty() ? 0 : b[i % b.size()]);
    difference |= static_cast<unsigned>(static_cast<unsigned char>(a[i]) ^ other);
  }
  return difference == 0;
}

}  // namespace longhaul::service
