#include "engines/kubernetes/pod/token_keys.h"

#include <gtest/gtest.h>
#include <openssl/hmac.h>

#include "base/text.h"
#include "engines/kubernetes/pod/token_signer.h"

namespace longhaul::engines::kubernetes::token_keys_test {
namespace {

using Json = nlohmann::json;
using std::chrono::nanoseconds;
using std::chrono::seconds;

constexpr std::string_view kAudience = "longhaul.dev/job/1234";
constexpr int64_t kIssued = 1'700'000'000;
constexpr int64_t kExpires = kIssued + 3600;
const Instant kNow = Instant(seconds(kIssued + 60));

// Made once: a key of RSA takes a tenth of a second.
const TokenSigner& RsaSigner() {
  static const TokenSigner signer = TokenSigner::Rsa("rsa-1");
  return signer;
}
const TokenSigner& EcSigner() {
  static const TokenSigner signer = TokenSigner::Ec("ec-1", "P-256");
  return signer;
}

TokenKeys KeysOf(const std::vector<Json>& keys) {
  auto parsed = TokenKeys::Parse(KeySet(keys));
  EXPECT_TRUE(parsed.ok()) << parsed.status();
  return parsed.ok() ? *parsed : TokenKeys();
}
const TokenKeys& Keys() {
  static const TokenKeys keys = KeysOf({RsaSigner().Jwk(), EcSigner().Jwk()});
  return keys;
}

Json Claims() {
  return {{"aud", {kAudience}},
          {"exp", kExpires},
          {"iat", kIssued},
          {"nbf", kIssued},
          {"iss", "https://kubernetes.default.svc"},
          {"sub", "system:serviceaccount:research:default"},
          {"kubernetes.io",
           {{"namespace", "research"},
            {"node", {{"name", "machine-7"}, {"uid", "n-7"}}},
            {"pod", {{"name", "tune-worker-0"}, {"uid", "p-0"}}},
            {"serviceaccount", {{"name", "default"}, {"uid", "s-1"}}}}}};
}

// The message of the refusal, or "" with a failure if it was accepted.
std::string Refusal(const TokenKeys& keys, const std::string& token, Instant now = kNow,
                    std::string_view audience = kAudience) {
  const auto claims = keys.Verify(token, audience, now);
  EXPECT_FALSE(claims.ok()) << "accepted: " << token;
  if (claims.ok()) return "";
  EXPECT_EQ(claims.status().code(), Code::kUnauthenticated) << claims.status();
  const std::string& message = claims.status().message();
  const std::string_view signature = std::string_view(token).substr(token.rfind('.') + 1);
  EXPECT_TRUE(signature.size() < 8 || message.find(signature.substr(0, 8)) == std::string::npos)
      << message;
  return message;
}
std::string Refusal(const std::string& token) { return Refusal(Keys(), token); }

bool Has(const std::string& text, std::string_view part) {
  return text.find(part) != std::string::npos;
}

TEST(TokenKeys, ReadsTheClaimsOfATokenOfEachAlgorithm) {
  const TokenSigner large = TokenSigner::Ec("ec-2", "P-384");
  Json rsa = RsaSigner().Jwk();
  rsa.erase("alg");
  const TokenKeys keys = KeysOf({rsa, EcSigner().Jwk(), large.Jwk()});
  EXPECT_EQ(keys.size(), 3u);
  const std::string payload = Claims().dump();
  for (const std::string& token :
       {RsaSigner().Token(Claims()), EcSigner().Token(Claims()), large.Token(Claims()),
        RsaSigner().Sign(R"({"alg":"RS384","kid":"rsa-1"})", payload, "SHA384"),
        RsaSigner().Sign(R"({"alg":"RS512","kid":"rsa-1"})", payload, "SHA512"),
        RsaSigner().Sign(R"({"alg":"RS256"})", payload),
        EcSigner().Sign(R"({"alg":"ES256"})", payload)}) {
    const auto claims = keys.Verify(token, kAudience, kNow);
    ASSERT_TRUE(claims.ok()) << claims.status() << "\n" << token;
    EXPECT_EQ(claims->subject, "system:serviceaccount:research:default");
    EXPECT_EQ(claims->namespace_name, "research");
    EXPECT_EQ(claims->pod_name, "tune-worker-0");
    EXPECT_EQ(claims->pod_uid, "p-0");
    EXPECT_EQ(claims->expires, Instant(seconds(kExpires)));
  }
}

// At its borders, to the nanosecond.
TEST(TokenKeys, RefusesATokenOutsideOfItsTimeAndTheLeeway) {
  const std::string token = RsaSigner().Token(Claims());
  const Instant first = Instant(seconds(kIssued)) - TokenKeys::kLeeway;
  const Instant last = Instant(seconds(kExpires)) + TokenKeys::kLeeway - nanoseconds(1);
  EXPECT_TRUE(Keys().Verify(token, kAudience, first).ok());
  EXPECT_TRUE(Keys().Verify(token, kAudience, last).ok());
  EXPECT_EQ(Refusal(Keys(), token, first - nanoseconds(1)),
            "the token is not valid before 2023-11-14T22:13:20.000Z");
  EXPECT_EQ(Refusal(Keys(), token, last + nanoseconds(1)),
            "the token expired at 2023-11-14T23:13:20.000Z");
}

TEST(TokenKeys, RefusesClaimsThatAreAbsentOrOfAnotherKind) {
  const struct {
    const char* key;
    Json value;  // null: absent
    const char* reason;
  } kRows[] = {
      {"aud", nullptr, "another audience"},
      {"aud", "longhaul.dev/job/12345", "another audience"},
      {"aud", "longhaul.dev/job/123", "another audience"},
      {"aud", {"a", "b"}, "another audience"},
      {"aud", Json::array(), "another audience"},
      {"aud", {{std::string(kAudience), true}}, "another audience"},
      {"aud", {{"a", kAudience}}, "another audience"},
      {"aud", 7, "another audience"},
      {"exp", nullptr, "no exp"},
      {"exp", std::to_string(kExpires), "no exp"},
      {"exp", kExpires + 0.5, "no exp"},
      {"exp", -1, "no exp"},
      {"exp", 9'000'000'001, "no exp"},
      {"exp", UINT64_MAX, "no exp"},
      {"nbf", "0", "nbf"},
      {"nbf", UINT64_MAX, "nbf"},
      {"sub", nullptr, "no subject"},
      {"sub", "", "no subject"},
      {"sub", {{"a", "b"}}, "no subject"},
  };
  for (const auto& row : kRows) {
    Json claims = Claims();
    claims.erase(row.key);
    if (!row.value.is_null()) claims[row.key] = row.value;
    const std::string message = Refusal(EcSigner().Token(claims));
    EXPECT_TRUE(Has(message, row.reason)) << row.key << " " << row.value << ": " << message;
  }
  EXPECT_TRUE(Has(Refusal(EcSigner().Sign(EcSigner().Header(), "[]")), "no JSON object"));
  EXPECT_TRUE(Has(Refusal(EcSigner().Sign(EcSigner().Header(), "{")), "no JSON object"));
}

TEST(TokenKeys, AcceptsAnAudienceAmongOthersAndATokenOfNoPod) {
  Json claims = Claims();
  claims["aud"] = {"other", 7, kAudience};
  EXPECT_TRUE(Keys().Verify(EcSigner().Token(claims), kAudience, kNow).ok());
  claims["aud"] = kAudience;
  claims.erase("nbf");
  for (const Json& place : {Json(), Json("x"), Json({{"pod", "x"}}),
                            Json({{"namespace", 1}, {"pod", {{"name", 1}, {"uid", 1}}}})}) {
    claims["kubernetes.io"] = place;
    const auto read = Keys().Verify(EcSigner().Token(claims), kAudience, kNow);
    ASSERT_TRUE(read.ok()) << read.status();
    EXPECT_EQ(read->namespace_name + read->pod_name + read->pod_uid, "");
  }
}

// Each bit of a token of RSA, and one of each byte of the other, whose verification is slower.
TEST(TokenKeys, RefusesATokenWithAFlippedBit) {
  for (const auto& [token, step] :
       {std::pair(RsaSigner().Token(Claims()), 1), std::pair(EcSigner().Token(Claims()), 8)}) {
    ASSERT_TRUE(Keys().Verify(token, kAudience, kNow).ok());
    const std::vector<std::string_view> parts = Split(token, '.');
    for (size_t part = 0; part < parts.size(); ++part) {
      const std::string bytes = *DecodeBase64Url(parts[part]);
      for (size_t bit = 0; bit < 8 * bytes.size(); bit += static_cast<size_t>(step)) {
        std::string changed = bytes;
        changed[bit / 8] = static_cast<char>(changed[bit / 8] ^ (1 << ((bit + bit / 8) % 8)));
        std::vector<std::string> all(parts.begin(), parts.end());
        all[part] = EncodeBase64Url(changed);
        EXPECT_FALSE(Keys().Verify(Join(all, "."), kAudience, kNow).ok())
            << "part " << part << ", bit " << bit;
      }
    }
  }
}

TEST(TokenKeys, RefusesATokenThatIsCutOrContinued) {
  for (const std::string& token : {RsaSigner().Token(Claims()), EcSigner().Token(Claims())}) {
    for (size_t size = 0; size < token.size(); ++size) {
      EXPECT_FALSE(Keys().Verify(token.substr(0, size), kAudience, kNow).ok()) << size;
    }
    for (const char* more : {"A", "AAAA", "=", ".", ".AAAA", "\n", " "}) {
      EXPECT_FALSE(Keys().Verify(token + more, kAudience, kNow).ok()) << more;
    }
    EXPECT_FALSE(Keys().Verify(" " + token, kAudience, kNow).ok());
  }
}

// There is one text for each token: unused bits of the last character of a part are zero.
TEST(TokenKeys, RefusesAnotherTextOfTheSameBytes) {
  std::string token = RsaSigner().Token(Claims());
  ASSERT_EQ(DecodeBase64Url(Split(token, '.')[2])->size() % 3, 1u) << "no unused bits";
  token.back() = static_cast<char>(token.back() + 1);  // A, Q, g or w, and the next one
  EXPECT_TRUE(Has(Refusal(token), "base64url"));
}

TEST(TokenKeys, RefusesTheAlgorithmNone) {
  const std::string payload = EncodeBase64Url(Claims().dump());
  for (const char* name : {"none", "None", "NONE", "nOnE", ""}) {
    const std::string header =
        EncodeBase64Url(Json({{"alg", name}, {"kid", "rsa-1"}}).dump()) + "." + payload;
    EXPECT_TRUE(Has(Refusal(header + "."), "algorithm is '" + std::string(name) + "'"));
    EXPECT_TRUE(Has(Refusal(header + ".AAAA"), "algorithm is"));
  }
  for (const char* header : {R"({"kid":"rsa-1"})", R"({"alg":1})", R"({"alg":["RS256"]})"}) {
    EXPECT_TRUE(Has(Refusal(RsaSigner().Sign(header, Claims().dump())), "algorithm is ''"));
  }
}

// The public key is known to everybody, so nothing that is made from it alone may be accepted.
TEST(TokenKeys, RefusesAnHmacWithThePublicKeyAsItsSecret) {
  const Json jwk = RsaSigner().Jwk();
  for (const std::string& secret :
       {jwk.dump(), KeySet({jwk}), *DecodeBase64Url(jwk["n"].get<std::string>())}) {
    for (const char* name : {"HS256", "RS256"}) {
      const std::string text = EncodeBase64Url(Json({{"alg", name}, {"kid", "rsa-1"}}).dump()) +
                               "." + EncodeBase64Url(Claims().dump());
      unsigned char mac[32];
      unsigned size = 0;
      HMAC(EVP_sha256(), secret.data(), static_cast<int>(secret.size()),
           reinterpret_cast<const unsigned char*>(text.data()), text.size(), mac, &size);
      Refusal(text + "." + EncodeBase64Url({reinterpret_cast<const char*>(mac), size}));
    }
  }
}

TEST(TokenKeys, RefusesAnAlgorithmThatIsNotTheKeys) {
  const std::string payload = Claims().dump();
  // The key states RS256, and an EC key is for the algorithm of its curve.
  Refusal(RsaSigner().Sign(R"({"alg":"RS512","kid":"rsa-1"})", payload, "SHA512"));
  Refusal(RsaSigner().Sign(R"({"alg":"ES256","kid":"rsa-1"})", payload));
  Refusal(EcSigner().Sign(R"({"alg":"RS256","kid":"ec-1"})", payload));
  Refusal(EcSigner().Sign(R"({"alg":"ES384","kid":"ec-1"})", payload, "SHA384"));
  Refusal(RsaSigner().Sign(R"({"alg":"PS256","kid":"rsa-1"})", payload));
  Refusal(EcSigner().Sign(R"({"alg":"ES256","kid":"rsa-1"})", payload));
  // A key that states no algorithm is for those of its kind.
  Json rsa = RsaSigner().Jwk();
  rsa.erase("alg");
  for (const char* header : {R"({"alg":"ES256","kid":"rsa-1"})", R"({"alg":"ES256"})"}) {
    Refusal(KeysOf({rsa}), RsaSigner().Sign(header, payload));
  }
}

TEST(TokenKeys, RefusesASignatureOfAnotherKey) {
  const TokenSigner other = TokenSigner::Ec("ec-1", "P-256");
  EXPECT_TRUE(Has(Refusal(other.Token(Claims())), "not signed by"));
  EXPECT_TRUE(Has(Refusal(other.Sign(R"({"alg":"ES256"})", Claims().dump())), "not signed by"));
}

TEST(TokenKeys, TakesOnlyTheKeyThatATokenNames) {
  const TokenSigner other = TokenSigner::Ec("ec-2", "P-256");
  const TokenKeys keys = KeysOf({EcSigner().Jwk(), other.Jwk()});
  const std::string payload = Claims().dump();
  EXPECT_TRUE(keys.Verify(other.Token(Claims()), kAudience, kNow).ok());
  EXPECT_TRUE(Has(Refusal(keys, EcSigner().Sign(R"({"alg":"ES256","kid":"ec-2"})", payload)),
                  "not signed by"));
  const auto unknown =
      keys.Verify(EcSigner().Sign(R"({"alg":"ES256","kid":"ec-3"})", payload), kAudience, kNow);
  EXPECT_EQ(unknown.status().code(), Code::kNotFound) << unknown.status();
  EXPECT_TRUE(
      Has(Refusal(keys, EcSigner().Sign(R"({"alg":"ES256","kid":7})", payload)), "no text"));
  Json unnamed = EcSigner().Jwk();
  unnamed.erase("kid");
  EXPECT_EQ(KeysOf({unnamed}).Verify(EcSigner().Token(Claims()), kAudience, kNow).status().code(),
            Code::kNotFound);
}

TEST(TokenKeys, RefusesHeadersThatItDoesNotUnderstand) {
  const std::string payload = Claims().dump();
  EXPECT_TRUE(
      Has(Refusal(EcSigner().Sign(R"({"alg":"ES256","kid":"ec-1","crit":["b64"]})", payload)),
          "critical"));
  EXPECT_TRUE(Has(Refusal(EcSigner().Sign("[]", payload)), "no JSON object"));
  EXPECT_TRUE(Has(Refusal(EcSigner().Sign("", payload)), "no JSON object"));
}

TEST(TokenKeys, AcceptsATokenOfTheLargestSizeAndNoneAboveIt) {
  Json claims = Claims();
  const auto token = [&](size_t fill) {
    claims["fill"] = std::string(fill, 'x');
    return EcSigner().Token(claims);
  };
  size_t fill = 11'000;
  while (token(fill + 1).size() <= TokenKeys::kMostTokenBytes) ++fill;
  EXPECT_GT(token(fill).size(), TokenKeys::kMostTokenBytes - 4);
  EXPECT_TRUE(Keys().Verify(token(fill), kAudience, kNow).ok());
  EXPECT_TRUE(Has(Refusal(token(fill + 1)), "expected at most 16384"));
}

// A key of RSA whose modulus has so many bits.
Json KeyOfBits(int bits, const std::string& exponent = "AQAB") {
  std::string modulus(static_cast<size_t>((bits + 7) / 8), '\xFF');
  modulus[0] = static_cast<char>(0xFF >> ((8 - bits % 8) % 8));
  return {{"kty", "RSA"}, {"kid", "k"}, {"n", EncodeBase64Url(modulus)}, {"e", exponent}};
}

TEST(TokenKeySet, RefusesDamagedKeys) {
  const auto changed = [](Json key, const char* name, const Json& value) {
    key[name] = value;
    return key;
  };
  const Json rsa = RsaSigner().Jwk();
  const Json ec = EcSigner().Jwk();
  const std::string n = rsa["n"];
  const std::string x = ec["x"];
  std::string even = *DecodeBase64Url(n);
  even.back() = static_cast<char>(even.back() & ~1);
  const struct {
    Json key;
    const char* reason;
  } kRows[] = {
      {"x", "no JSON object"},
      {changed(rsa, "n", nullptr), "no number"},
      {changed(rsa, "n", ""), "no number"},
      {changed(rsa, "n", n + "="), "no number"},
      {changed(rsa, "n", EncodeBase64Url(std::string(1, '\0') + *DecodeBase64Url(n))), "no number"},
      {changed(rsa, "n", EncodeBase64Url(even)), "odd"},
      {changed(rsa, "e", nullptr), "no number"},
      {changed(rsa, "e", ""), "no number"},
      {changed(rsa, "e", "AAEAAQ"), "no number"},  // a zero in front
      {changed(rsa, "e", "AQ"), "odd"},            // 1
      {changed(rsa, "e", "BA"), "odd"},            // 4
      {changed(rsa, "e", "AQAAAAE"), "odd"},       // five bytes
      {KeyOfBits(2047), "n has 2047 bits"},
      {KeyOfBits(8193), "n has 8193 bits"},
      {changed(ec, "x", nullptr), "32 bytes"},
      {changed(ec, "x", x.substr(0, 40)), "32 bytes"},
      {changed(ec, "x", ec["y"]), "no point"},
      {changed(ec, "x", EncodeBase64Url(std::string(32, '\xFF'))), "no point"},
      {changed(ec, "crv", "P-384"), "48 bytes"},
  };
  for (const auto& row : kRows) {
    const Status refused = TokenKeys::Parse(KeySet({RsaSigner().Jwk(), row.key})).status();
    EXPECT_EQ(refused.code(), Code::kInvalidArgument) << row.key;
    EXPECT_TRUE(Has(refused.message(), row.reason)) << row.key << ": " << refused;
    EXPECT_TRUE(Has(refused.message(), "keys[1]")) << refused;
  }
  EXPECT_EQ(KeysOf({KeyOfBits(2048), KeyOfBits(8192), KeyOfBits(2048, "Aw")}).size(), 3u);
}

TEST(TokenKeySet, SkipsKeysForOtherUses) {
  Json encrypts = EcSigner().Jwk();
  encrypts["use"] = "enc";
  Json other = RsaSigner().Jwk();
  other["alg"] = "PS256";
  Json of_a_curve = EcSigner().Jwk();
  of_a_curve["crv"] = "P-521";
  Json mixed = EcSigner().Jwk();
  mixed["alg"] = "RS256";
  const std::vector<Json> skipped = {
      encrypts,
      other,
      of_a_curve,
      mixed,
      Json::object(),
      {{"kty", "oct"}, {"k", "c2VjcmV0"}, {"kid", "rsa-1"}, {"alg", "HS256"}},
      {{"kty", "OKP"}, {"crv", "Ed25519"}, {"x", "AAAA"}}};
  const Status none = TokenKeys::Parse(KeySet(skipped)).status();
  EXPECT_EQ(none.code(), Code::kInvalidArgument);
  EXPECT_TRUE(Has(none.message(), "no key for RS256")) << none;
  std::vector<Json> all = skipped;
  all.push_back(EcSigner().Jwk());
  EXPECT_EQ(KeysOf(all).size(), 1u);
}

TEST(TokenKeySet, HasLimits) {
  std::vector<Json> keys(TokenKeys::kMostKeys, EcSigner().Jwk());
  EXPECT_EQ(KeysOf(keys).size(), TokenKeys::kMostKeys);
  keys.push_back(Json::object());
  EXPECT_TRUE(Has(TokenKeys::Parse(KeySet(keys)).status().message(), "expected at most 64"));
  std::string text = KeySet({EcSigner().Jwk()});
  text.resize(TokenKeys::kMostBytes, ' ');
  EXPECT_TRUE(TokenKeys::Parse(text).ok());
  EXPECT_TRUE(Has(TokenKeys::Parse(text + " ").status().message(), "expected at most 262144"));
  for (const char* bad : {"", "[]", "{}", "{", R"({"keys":{}})", R"({"keys":null})"}) {
    EXPECT_TRUE(Has(TokenKeys::Parse(bad).status().message(), "a list named")) << bad;
  }
  EXPECT_FALSE(TokenKeys::Parse(R"({"keys":[]})").ok());
}

}  // namespace
}  // namespace longhaul::engines::kubernetes::token_keys_test
