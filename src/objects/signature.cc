#include "objects/signature.h"

#include <openssl/evp.h>
#include <openssl/hmac.h>
#include <openssl/sha.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <ctime>
#include <utility>

#include "base/check.h"

namespace longhaul::objects {
namespace {

using Digest = std::array<unsigned char, SHA256_DIGEST_LENGTH>;

std::string Hex(const Digest& digest) {
  constexpr char kDigits[] = "0123456789abcdef";
  std::string text;
  for (const unsigned char byte : digest) {
    text += kDigits[byte >> 4];
    text += kDigits[byte & 15];
  }
  return text;
}

Digest Hmac(std::span<const unsigned char> key, std::string_view text) {
  Digest digest{};
  unsigned int bytes = 0;
  const auto* made =
      HMAC(EVP_sha256(), key.data(), static_cast<int>(key.size()),
           reinterpret_cast<const unsigned char*>(text.data()), text.size(), digest.data(), &bytes);
  CHECK(made != nullptr && bytes == digest.size());
  return digest;
}

// "20130524T000000Z"
std::string TimeText(Instant now) {
  const std::time_t seconds = static_cast<std::time_t>(ToNanoseconds(now) / 1'000'000'000);
  std::tm utc{};
  gmtime_r(&seconds, &utc);
  char text[32];
  std::strftime(text, sizeof(text), "%Y%m%dT%H%M%SZ", &utc);
  return text;
}

std::string QueryText(const Request& request) {
  std::vector<std::pair<std::string, std::string>> query;
  for (const auto& [name, value] : request.query) {
    query.emplace_back(PercentEncode(name, false), PercentEncode(value, false));
  }
  std::sort(query.begin(), query.end());
  std::string text;
  for (const auto& [name, value] : query) {
    text += (text.empty() ? "" : "&") + name + "=" + value;
  }
  return text;
}

}  // namespace

std::string PercentEncode(std::string_view text, bool keep_slash) {
  constexpr char kDigits[] = "0123456789ABCDEF";
  std::string encoded;
  for (const char c : text) {
    const bool plain = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
                       c == '-' || c == '.' || c == '_' || c == '~' || (c == '/' && keep_slash);
    if (plain) {
      encoded += c;
    } else {
      const auto byte = static_cast<unsigned char>(c);
      encoded += '%';
      encoded += kDigits[byte >> 4];
      encoded += kDigits[byte & 15];
    }
  }
  return encoded;
}

std::string TargetOf(const Request& request) {
  const std::string query = QueryText(request);
  return PercentEncode(request.path, true) + (query.empty() ? "" : "?" + query);
}

std::string Sha256Hex(std::span<const std::byte> bytes) {
  Digest digest{};
  SHA256(reinterpret_cast<const unsigned char*>(bytes.data()), bytes.size(), digest.data());
  return Hex(digest);
}

std::map<std::string, std::string> Sign(const Request& request, const Credentials& credentials,
                                        std::string_view region, Instant now) {
  const std::string time = TimeText(now);
  const std::string day = time.substr(0, 8);
  std::map<std::string, std::string> headers = request.headers;
  headers["host"] = request.host;
  headers["x-amz-date"] = time;
  headers["x-amz-content-sha256"] = Sha256Hex(request.body);
  if (!credentials.session_token.empty()) {
    headers["x-amz-security-token"] = credentials.session_token;
  }

  std::string lines, names;
  for (const auto& [name, value] : headers) {
    lines += name + ":" + value + "\n";
    names += (names.empty() ? "" : ";") + name;
  }
  const std::string canonical = request.method + "\n" + PercentEncode(request.path, true) + "\n" +
                                QueryText(request) + "\n" + lines + "\n" + names + "\n" +
                                headers.at("x-amz-content-sha256");
  const std::string scope = day + "/" + std::string(region) + "/s3/aws4_request";
  const std::string to_sign = "AWS4-HMAC-SHA256\n" + time + "\n" + scope + "\n" +
                              Sha256Hex(std::as_bytes(std::span(canonical)));

  const std::string secret = "AWS4" + credentials.secret_key;
  Digest key = Hmac({reinterpret_cast<const unsigned char*>(secret.data()), secret.size()}, day);
  key = Hmac(key, region);
  key = Hmac(key, "s3");
  key = Hmac(key, "aws4_request");
  headers["authorization"] = "AWS4-HMAC-SHA256 Credential=" + credentials.access_key + "/" + scope +
                             ", SignedHeaders=" + names + ", Signature=" + Hex(Hmac(key, to_sign));
  return headers;
}

}  // namespace longhaul::objects
