// Verifies the tokens of Kubernetes' service accounts by the public keys of the API server.
//
// A token is a JSON Web Token (RFC 7519) with a signature (RFC 7515), for example
//   {"alg":"RS256","kid":"..."}
//   {"aud":["longhaul.dev/job/UID"],"exp":1700003600,"nbf":1700000000,
//    "sub":"system:serviceaccount:NS:SA",
//    "kubernetes.io":{"namespace":"NS","pod":{"name":"...","uid":"..."}}}
// The keys are a JWK set (RFC 7517), as GET /openid/v1/jwks gives it: {"keys":[{"kty":"RSA",...}]}.
// Read are RSA keys of 2,048 to 8,192 bits (RS256, RS384, RS512) and keys of the curves P-256
// (ES256) and P-384 (ES384). The kind of the key decides which algorithms a token may state, so
// that neither "none" nor an HMAC with a public key as its secret is possible.
//
// Leaves out: the issuer (whoever has the private key is the issuer), encrypted tokens, keys inside
// of tokens, P-521, and asking the API server whether the pod still exists.
// Pure: the time is an argument. Thread-safe.
#pragma once

#include <cstddef>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "base/time.h"

struct evp_pkey_st;  // EVP_PKEY of OpenSSL

namespace longhaul::engines::kubernetes {

// What a verified token states of its holder.
struct TokenClaims {
  std::string subject;         // "system:serviceaccount:NAMESPACE:ACCOUNT"
  std::string namespace_name;  // empty: not in the token, as the next two
  std::string pod_name;
  std::string pod_uid;
  Instant expires;
};

class TokenKeys {
 public:
  static constexpr size_t kMostBytes = 256 << 10;  // of a JWK set
  static constexpr size_t kMostKeys = 64;          // of all kinds
  static constexpr size_t kMostTokenBytes = 16 << 10;
  static constexpr int kLeastRsaBits = 2048;  // NIST SP 800-131A
  static constexpr int kMostRsaBits = 8192;   // so that a verification stays cheap
  static constexpr Duration kLeeway = std::chrono::seconds(30);  // clocks of machines differ

  // Reads a JWK set. Keys of other kinds and for other uses are skipped, as RFC 7517 requires.
  // kInvalidArgument if a key of the kinds above is damaged or no key is left.
  static Result<TokenKeys> Parse(std::string_view text);

  // Returns the claims of a token that one of the keys has signed, for this audience, which is
  // valid at `now`. kNotFound if no key has the id that the token names, else kUnauthenticated.
  // Messages contain no part of the signature.
  Result<TokenClaims> Verify(std::string_view token, std::string_view audience, Instant now) const;

  size_t size() const { return keys_.size(); }

 private:
  enum class Kind { kRsa, kP256, kP384 };
  struct Algorithm;
  struct Key {
    Kind kind = Kind::kRsa;
    std::string id;                    // empty: none
    std::string algorithm;             // empty: each of its kind
    std::shared_ptr<evp_pkey_st> key;  // shared by copies; nobody changes it
  };

  static const Algorithm* FindAlgorithm(std::string_view name);
  static bool IsSignedBy(const Key& key, const Algorithm& algorithm, std::string_view text,
                         const std::string& signature);
  // Reads one key of a set; nothing for one that is skipped.
  template <typename Json>
  static Result<std::optional<Key>> ReadKey(const Json& json);
  // `header`: of the token, decoded. `text`: what is signed.
  Status CheckSignature(const std::string& header, std::string_view text,
                        const std::string& signature) const;

  std::vector<Key> keys_;
};

}  // namespace longhaul::engines::kubernetes
