// For tests and fuzzers: keys that OpenSSL makes, their JWK sets, and tokens that they sign.
#pragma once

#include <openssl/bn.h>
#include <openssl/core_names.h>
#include <openssl/ec.h>
#include <openssl/evp.h>
#include <openssl/rsa.h>

#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "base/check.h"
#include "engines/kubernetes/protocol/access/base64.h"

namespace longhaul::engines::kubernetes {

class TokenSigner {
 public:
  static TokenSigner Rsa(const std::string& id, unsigned bits = 2048) {
    return {id, "RSA", EVP_PKEY_Q_keygen(nullptr, nullptr, "RSA", size_t{bits})};
  }
  // `curve`: "P-256" or "P-384".
  static TokenSigner Ec(const std::string& id, const char* curve) {
    return {id, curve, EVP_PKEY_Q_keygen(nullptr, nullptr, "EC", curve)};
  }

  // The public key as a JWK.
  nlohmann::json Jwk() const {
    if (kind_ == "RSA") {
      return {{"kty", "RSA"},
              {"kid", id_},
              {"use", "sig"},
              {"alg", "RS256"},
              {"n", Number(OSSL_PKEY_PARAM_RSA_N, 0)},
              {"e", Number(OSSL_PKEY_PARAM_RSA_E, 0)}};
    }
    const int bytes = CoordinateBytes();
    return {{"kty", "EC"},
            {"kid", id_},
            {"use", "sig"},
            {"crv", kind_},
            {"x", Number(OSSL_PKEY_PARAM_EC_PUB_X, bytes)},
            {"y", Number(OSSL_PKEY_PARAM_EC_PUB_Y, bytes)}};
  }

  // Signs any header and payload with this digest.
  std::string Sign(const std::string& header, const std::string& payload,
                   const char* digest = "SHA256") const {
    const std::string text = EncodeBase64Url(header) + "." + EncodeBase64Url(payload);
    const std::unique_ptr<EVP_MD_CTX, decltype(&EVP_MD_CTX_free)> context(EVP_MD_CTX_new(),
                                                                          EVP_MD_CTX_free);
    CHECK(EVP_DigestSignInit_ex(context.get(), nullptr, digest, nullptr, nullptr, key_.get(),
                                nullptr) == 1);
    const auto* const bytes = reinterpret_cast<const unsigned char*>(text.data());
    size_t size = 0;
    CHECK(EVP_DigestSign(context.get(), nullptr, &size, bytes, text.size()) == 1);
    std::string signature(size, '\0');
    CHECK(EVP_DigestSign(context.get(), reinterpret_cast<unsigned char*>(signature.data()), &size,
                         bytes, text.size()) == 1);
    signature.resize(size);
    return text + "." + EncodeBase64Url(kind_ == "RSA" ? signature : FromDer(signature));
  }

  // The header of a token of this key.
  std::string Header() const {
    const char* const algorithm = kind_ == "RSA" ? "RS256" : kind_ == "P-256" ? "ES256" : "ES384";
    return nlohmann::json({{"alg", algorithm}, {"kid", id_}}).dump();
  }
  // A token of this key, as the API server makes it.
  std::string Token(const nlohmann::json& claims) const {
    return Sign(Header(), claims.dump(), kind_ == "P-384" ? "SHA384" : "SHA256");
  }

 private:
  TokenSigner(std::string id, std::string kind, EVP_PKEY* key)
      : id_(std::move(id)), kind_(std::move(kind)), key_(key, EVP_PKEY_free) {
    CHECK(key_ != nullptr);
  }

  int CoordinateBytes() const { return kind_ == "P-256" ? 32 : 48; }

  // A number of the key in base64url, with `bytes` bytes; 0: as many as it has.
  std::string Number(const char* name, int bytes) const {
    BIGNUM* raw = nullptr;
    CHECK(EVP_PKEY_get_bn_param(key_.get(), name, &raw) == 1);
    const std::unique_ptr<BIGNUM, decltype(&BN_free)> number(raw, BN_free);
    return EncodeBase64Url(BytesOf(raw, bytes));
  }
  static std::string BytesOf(const BIGNUM* number, int bytes) {
    std::string text(static_cast<size_t>(bytes == 0 ? BN_num_bytes(number) : bytes), '\0');
    CHECK(BN_bn2binpad(number, reinterpret_cast<unsigned char*>(text.data()),
                       static_cast<int>(text.size())) > 0);
    return text;
  }
  std::string FromDer(const std::string& der) const {
    const auto* bytes = reinterpret_cast<const unsigned char*>(der.data());
    const std::unique_ptr<ECDSA_SIG, decltype(&ECDSA_SIG_free)> both(
        d2i_ECDSA_SIG(nullptr, &bytes, static_cast<long>(der.size())), ECDSA_SIG_free);
    CHECK(both != nullptr);
    return BytesOf(ECDSA_SIG_get0_r(both.get()), CoordinateBytes()) +
           BytesOf(ECDSA_SIG_get0_s(both.get()), CoordinateBytes());
  }

  std::string id_;
  std::string kind_;  // "RSA" or the curve
  std::shared_ptr<EVP_PKEY> key_;
};

// The JWK set of these keys.
inline std::string KeySet(const std::vector<nlohmann::json>& keys) {
  return nlohmann::json({{"keys", keys}}).dump();
}

}  // namespace longhaul::engines::kubernetes
