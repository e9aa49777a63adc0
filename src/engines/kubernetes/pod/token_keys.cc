#include "engines/kubernetes/pod/token_keys.h"

#include <openssl/bn.h>
#include <openssl/core_names.h>
#include <openssl/ec.h>
#include <openssl/err.h>
#include <openssl/evp.h>
#include <openssl/param_build.h>

#include <algorithm>
#include <cstdint>
#include <nlohmann/json.hpp>

#include "base/text.h"
#include "engines/kubernetes/protocol/access/base64.h"

namespace longhaul::engines::kubernetes {
namespace {

using Json = nlohmann::json;

template <auto Free>
struct Deleter {
  template <typename T>
  void operator()(T* object) const {
    Free(object);
  }
};
using Number = std::unique_ptr<BIGNUM, Deleter<BN_free>>;
using Parameters = std::unique_ptr<OSSL_PARAM, Deleter<OSSL_PARAM_free>>;
using ParameterBuilder = std::unique_ptr<OSSL_PARAM_BLD, Deleter<OSSL_PARAM_BLD_free>>;
using KeyContext = std::unique_ptr<EVP_PKEY_CTX, Deleter<EVP_PKEY_CTX_free>>;
using DigestContext = std::unique_ptr<EVP_MD_CTX, Deleter<EVP_MD_CTX_free>>;
using EcSignature = std::unique_ptr<ECDSA_SIG, Deleter<ECDSA_SIG_free>>;
using SharedKey = std::shared_ptr<EVP_PKEY>;

constexpr size_t kMostShownBytes = 80;      // of a text of a token, in a message
constexpr size_t kMostExponentBytes = 4;    // usual is 65537; OpenSSL takes at most 8
constexpr int64_t kLatest = 9'000'000'000;  // seconds: the year 2255; nanoseconds hold it
constexpr std::string_view kUse = "sig";
constexpr std::string_view kKubernetes = "kubernetes.io";

// Empties OpenSSL's queue of errors, which each thread has, so that a later failure of something
// else does not report this one.
class ErrorsCleared {
 public:
  ~ErrorsCleared() { ERR_clear_error(); }
};

const unsigned char* BytesOf(std::string_view text) {
  return reinterpret_cast<const unsigned char*>(text.data());
}

Number NumberOf(std::string_view bytes) {
  return Number(BN_bin2bn(BytesOf(bytes), static_cast<int>(bytes.size()), nullptr));
}

// The value of a member that is a text; nothing if there is none or it is something else.
std::optional<std::string> TextIn(const Json& object, std::string_view key) {
  const auto found = object.find(key);
  if (found == object.end() || !found->is_string()) return std::nullopt;
  return found->get<std::string>();
}

std::optional<std::string> BytesIn(const Json& object, std::string_view key) {
  const std::optional<std::string> text = TextIn(object, key);
  return text ? DecodeBase64Url(*text) : std::nullopt;
}

std::optional<Json> ParseObject(std::string_view text) {
  Json json = Json::parse(text, nullptr, /*allow_exceptions=*/false);
  if (!json.is_object()) return std::nullopt;
  return json;
}

SharedKey MakeKey(const char* type, OSSL_PARAM_BLD* builder) {
  const Parameters parameters(OSSL_PARAM_BLD_to_param(builder));
  const KeyContext context(EVP_PKEY_CTX_new_from_name(nullptr, type, nullptr));
  EVP_PKEY* key = nullptr;
  if (parameters == nullptr || context == nullptr || EVP_PKEY_fromdata_init(context.get()) != 1 ||
      EVP_PKEY_fromdata(context.get(), &key, EVP_PKEY_PUBLIC_KEY, parameters.get()) != 1) {
    return nullptr;
  }
  return SharedKey(key, EVP_PKEY_free);
}

// Numbers have no zeros in front (RFC 7518, section 6.3.1).
Result<SharedKey> RsaKey(const Json& json) {
  const std::optional<std::string> modulus = BytesIn(json, "n");
  const std::optional<std::string> exponent = BytesIn(json, "e");
  if (!modulus || !exponent || modulus->empty() || exponent->empty() || modulus->front() == 0 ||
      exponent->front() == 0) {
    return InvalidArgument("n or e is no number in base64url");
  }
  const Number n = NumberOf(*modulus);
  const Number e = NumberOf(*exponent);
  const ParameterBuilder builder(OSSL_PARAM_BLD_new());
  if (n == nullptr || e == nullptr || builder == nullptr) return InternalError("OpenSSL failed");
  const int bits = BN_num_bits(n.get());
  if (bits < TokenKeys::kLeastRsaBits || bits > TokenKeys::kMostRsaBits) {
    return InvalidArgument("n has " + std::to_string(bits) + " bits, expected " +
                           std::to_string(TokenKeys::kLeastRsaBits) + " to " +
                           std::to_string(TokenKeys::kMostRsaBits));
  }
  // With e = 1 each text would be its own signature.
  if (exponent->size() > kMostExponentBytes || !BN_is_odd(e.get()) || BN_is_one(e.get()) ||
      !BN_is_odd(n.get())) {
    return InvalidArgument("n and e must be odd, and e from 3 to 4294967295");
  }
  if (OSSL_PARAM_BLD_push_BN(builder.get(), OSSL_PKEY_PARAM_RSA_N, n.get()) != 1 ||
      OSSL_PARAM_BLD_push_BN(builder.get(), OSSL_PKEY_PARAM_RSA_E, e.get()) != 1) {
    return InternalError("OpenSSL failed");
  }
  SharedKey key = MakeKey("RSA", builder.get());
  if (key == nullptr) return InvalidArgument("n and e are no RSA key");
  return key;
}

Result<SharedKey> EcKey(const Json& json, const char* group, size_t coordinate_bytes) {
  const std::optional<std::string> x = BytesIn(json, "x");
  const std::optional<std::string> y = BytesIn(json, "y");
  if (!x || !y || x->size() != coordinate_bytes || y->size() != coordinate_bytes) {
    return InvalidArgument("x or y is not of " + std::to_string(coordinate_bytes) +
                           " bytes in base64url");
  }
  const std::string point = std::string(1, POINT_CONVERSION_UNCOMPRESSED) + *x + *y;
  const ParameterBuilder builder(OSSL_PARAM_BLD_new());
  if (builder == nullptr ||
      OSSL_PARAM_BLD_push_utf8_string(builder.get(), OSSL_PKEY_PARAM_GROUP_NAME, group, 0) != 1 ||
      OSSL_PARAM_BLD_push_octet_string(builder.get(), OSSL_PKEY_PARAM_PUB_KEY, point.data(),
                                       point.size()) != 1) {
    return InternalError("OpenSSL failed");
  }
  // OpenSSL refuses a point that is not on the curve, and these curves have no small subgroups.
  SharedKey key = MakeKey("EC", builder.get());
  if (key == nullptr) return InvalidArgument("x and y are no point of the curve");
  return key;
}

// JWS has the two numbers of an ECDSA signature one after the other (RFC 7518, section 3.4),
// OpenSSL takes them in DER.
std::optional<std::string> ToDer(const std::string& signature, size_t bytes) {
  if (signature.size() != bytes) return std::nullopt;
  const std::string_view all(signature);
  Number r = NumberOf(all.substr(0, bytes / 2));
  Number s = NumberOf(all.substr(bytes / 2));
  const EcSignature made(ECDSA_SIG_new());
  if (r == nullptr || s == nullptr || made == nullptr ||
      ECDSA_SIG_set0(made.get(), r.get(), s.get()) != 1) {
    return std::nullopt;
  }
  (void)r.release();  // they belong to `made` now
  (void)s.release();
  unsigned char* der = nullptr;
  const int length = i2d_ECDSA_SIG(made.get(), &der);
  if (length <= 0) return std::nullopt;
  std::string text(reinterpret_cast<const char*>(der), static_cast<size_t>(length));
  OPENSSL_free(der);
  return text;
}

// A time as Kubernetes writes it: whole seconds since the epoch.
std::optional<Instant> TimeIn(const Json& claims, std::string_view key) {
  const auto found = claims.find(key);
  if (found == claims.end() || !found->is_number_integer()) return std::nullopt;
  const auto seconds = found->get<int64_t>();
  if (seconds < 0 || seconds > kLatest) return std::nullopt;
  return Instant(std::chrono::seconds(seconds));
}

bool IsForAudience(const Json& claims, std::string_view audience) {
  const auto found = claims.find("aud");
  if (found == claims.end()) return false;
  const auto same = [&](const Json& each) {
    return each.is_string() && each.get_ref<const std::string&>() == audience;
  };
  return found->is_array() ? std::any_of(found->begin(), found->end(), same) : same(*found);
}

Status CheckTimes(const Json& claims, Instant expires, Instant now) {
  if (now - TokenKeys::kLeeway >= expires) {
    return Unauthenticated("the token expired at " + ToString(expires));
  }
  if (!claims.contains("nbf")) return {};
  const std::optional<Instant> begins = TimeIn(claims, "nbf");
  if (!begins) return Unauthenticated("the token's nbf is no time in whole seconds");
  if (now + TokenKeys::kLeeway >= *begins) return {};
  return Unauthenticated("the token is not valid before " + ToString(*begins));
}

// What is about the pod is optional: a person can make a token that is bound to no pod.
TokenClaims PodClaims(const Json& claims) {
  TokenClaims read;
  const auto place = claims.find(kKubernetes);
  if (place == claims.end() || !place->is_object()) return read;
  read.namespace_name = TextIn(*place, "namespace").value_or("");
  const auto pod = place->find("pod");
  if (pod == place->end() || !pod->is_object()) return read;
  read.pod_name = TextIn(*pod, "name").value_or("");
  read.pod_uid = TextIn(*pod, "uid").value_or("");
  return read;
}

// Called only for a payload whose signature is right.
Result<TokenClaims> ReadClaims(const std::string& payload, std::string_view audience, Instant now) {
  const std::optional<Json> parsed = ParseObject(payload);
  if (!parsed) return Unauthenticated("the token's claims are no JSON object");
  const Json& claims = *parsed;
  if (!IsForAudience(claims, audience)) {
    return Unauthenticated("the token is for another audience, expected " +
                           Printable(audience, kMostShownBytes));
  }
  const std::optional<Instant> expires = TimeIn(claims, "exp");
  if (!expires) return Unauthenticated("the token has no exp in whole seconds");
  RETURN_IF_ERROR(CheckTimes(claims, *expires, now));
  TokenClaims read = PodClaims(claims);
  read.subject = TextIn(claims, "sub").value_or("");
  if (read.subject.empty()) return Unauthenticated("the token has no subject");
  read.expires = *expires;
  return read;
}

}  // namespace

struct TokenKeys::Algorithm {
  std::string_view name;
  Kind kind;
  const char* digest;
  size_t signature_bytes;  // 0: as the key has
};

const TokenKeys::Algorithm* TokenKeys::FindAlgorithm(std::string_view name) {
  static constexpr Algorithm kAlgorithms[] = {{"RS256", Kind::kRsa, "SHA256", 0},
                                              {"RS384", Kind::kRsa, "SHA384", 0},
                                              {"RS512", Kind::kRsa, "SHA512", 0},
                                              {"ES256", Kind::kP256, "SHA256", 64},
                                              {"ES384", Kind::kP384, "SHA384", 96}};
  for (const Algorithm& algorithm : kAlgorithms) {
    if (algorithm.name == name) return &algorithm;
  }
  return nullptr;
}

// Skipped: keys of kinds, curves and algorithms that are not read, and keys for encryption.
template <typename AnyJson>
Result<std::optional<TokenKeys::Key>> TokenKeys::ReadKey(const AnyJson& json) {
  if (!json.is_object()) return InvalidArgument("it is no JSON object");
  const std::string type = TextIn(json, "kty").value_or("");
  const std::string curve = TextIn(json, "crv").value_or("");
  Key key;
  key.id = TextIn(json, "kid").value_or("");
  key.algorithm = TextIn(json, "alg").value_or("");
  if (TextIn(json, "use").value_or(std::string(kUse)) != kUse) return std::optional<Key>();
  if (type == "RSA") {
    key.kind = Kind::kRsa;
  } else if (type == "EC" && (curve == "P-256" || curve == "P-384")) {
    key.kind = curve == "P-256" ? Kind::kP256 : Kind::kP384;
  } else {
    return std::optional<Key>();
  }
  if (!key.algorithm.empty()) {
    const Algorithm* const algorithm = FindAlgorithm(key.algorithm);
    if (algorithm == nullptr || algorithm->kind != key.kind) return std::optional<Key>();
  }
  Result<SharedKey> made = key.kind == Kind::kRsa    ? RsaKey(json)
                           : key.kind == Kind::kP256 ? EcKey(json, "prime256v1", 32)
                                                     : EcKey(json, "secp384r1", 48);
  if (!made.ok()) return made.status();
  key.key = *std::move(made);
  return std::optional<Key>(std::move(key));
}

Result<TokenKeys> TokenKeys::Parse(std::string_view text) {
  const ErrorsCleared cleared;
  if (text.size() > kMostBytes) {
    return InvalidArgument("the set of keys has " + std::to_string(text.size()) +
                           " bytes, expected at most " + std::to_string(kMostBytes));
  }
  const std::optional<Json> json = ParseObject(text);
  if (!json || !json->contains("keys") || !(*json)["keys"].is_array()) {
    return InvalidArgument("the set of keys is no JSON object with a list named \"keys\"");
  }
  const Json& list = (*json)["keys"];
  if (list.size() > kMostKeys) {
    return InvalidArgument("the set has " + std::to_string(list.size()) +
                           " keys, expected at most " + std::to_string(kMostKeys));
  }
  TokenKeys keys;
  for (size_t i = 0; i < list.size(); ++i) {
    Result<std::optional<Key>> key = ReadKey(list[i]);
    if (!key.ok()) return key.status().WithContext("keys[" + std::to_string(i) + "]");
    if (*key) keys.keys_.push_back(**std::move(key));
  }
  if (!keys.keys_.empty()) return keys;
  return InvalidArgument("the set has no key for RS256, RS384, RS512, ES256 or ES384");
}

bool TokenKeys::IsSignedBy(const Key& key, const Algorithm& algorithm, std::string_view text,
                           const std::string& signature) {
  const std::optional<std::string> own =
      key.kind == Kind::kRsa ? signature : ToDer(signature, algorithm.signature_bytes);
  const DigestContext context(EVP_MD_CTX_new());
  return own && context != nullptr &&
         EVP_DigestVerifyInit_ex(context.get(), nullptr, algorithm.digest, nullptr, nullptr,
                                 key.key.get(), nullptr) == 1 &&
         EVP_DigestVerify(context.get(), BytesOf(*own), own->size(), BytesOf(text), text.size()) ==
             1;
}

// The algorithm of the header chooses only among those of the key's own kind.
Status TokenKeys::CheckSignature(const std::string& header, std::string_view text,
                                 const std::string& signature) const {
  const std::optional<Json> parsed = ParseObject(header);
  if (!parsed) return Unauthenticated("the token's header is no JSON object");
  const Json& json = *parsed;
  // Extensions that a verifier must understand; there are none that this one does.
  if (json.contains("crit")) return Unauthenticated("the token's header has critical extensions");
  const std::string name = TextIn(json, "alg").value_or("");
  const Algorithm* const algorithm = FindAlgorithm(name);
  if (algorithm == nullptr) {
    return Unauthenticated("the token's algorithm is '" + Printable(name, kMostShownBytes) +
                           "', expected RS256, RS384, RS512, ES256 or ES384");
  }
  const bool has_id = json.contains("kid");
  const std::optional<std::string> id = TextIn(json, "kid");
  if (has_id && !id) return Unauthenticated("the id of the token's key is no text");
  bool known = !has_id;
  for (const Key& key : keys_) {
    if (has_id && key.id != *id) continue;
    known = true;
    if (key.kind != algorithm->kind) continue;
    if (!key.algorithm.empty() && key.algorithm != name) continue;
    if (IsSignedBy(key, *algorithm, text, signature)) return {};
  }
  if (!known) return NotFound("no key has the id '" + Printable(*id, kMostShownBytes) + "'");
  return Unauthenticated("the token is not signed by one of the API server's keys");
}

Result<TokenClaims> TokenKeys::Verify(std::string_view token, std::string_view audience,
                                      Instant now) const {
  const ErrorsCleared cleared;
  if (token.size() > kMostTokenBytes) {
    return Unauthenticated("the token has " + std::to_string(token.size()) +
                           " bytes, expected at most " + std::to_string(kMostTokenBytes));
  }
  const std::vector<std::string_view> parts = Split(token, '.');
  if (parts.size() != 3) return Unauthenticated("the token has not three parts");
  const std::optional<std::string> header = DecodeBase64Url(parts[0]);
  const std::optional<std::string> payload = DecodeBase64Url(parts[1]);
  const std::optional<std::string> signature = DecodeBase64Url(parts[2]);
  if (!header || !payload || !signature) {
    return Unauthenticated("a part of the token is not in base64url");
  }
  const std::string_view text = token.substr(0, parts[0].size() + 1 + parts[1].size());
  RETURN_IF_ERROR(CheckSignature(*header, text, *signature));
  return ReadClaims(*payload, audience, now);
}

}  // namespace longhaul::engines::kubernetes
