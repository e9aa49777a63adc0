// Any bytes as a token: none is accepted but the two that the private keys of the set have signed,
// which are seeds. And any bytes as the claims of a token that is signed: what is accepted is for
// the audience and the time, and has a subject.

#include <cstdint>
#include <string>
#include <string_view>

#include "base/check.h"
#include "engines/kubernetes/pod/token_keys.h"
#include "engines/kubernetes/pod/token_signer.h"

using namespace longhaul;
using namespace longhaul::engines::kubernetes;

namespace {

constexpr Instant kNow = Instant(std::chrono::seconds(1'700'000'000));
constexpr std::string_view kAudience = "longhaul.dev/job/1";

// Public keys whose private keys nobody has kept, and the two tokens that they signed.
constexpr std::string_view kKeys =
    R"({"keys":[{"use":"sig","kty":"RSA","kid":"r","alg":"RS256","n":"yUwuHuCVPrurrVwXKkbQH)"
    R"(nt4kIKJVEg0CAPRAV7KeOabnxJDdBD2wLbVbFwtowboEL-fheWhamJg6PttuEze1wdLEjtDE6VAdjOjbYLRX)"
    R"(O77tBUS6lQhxjkpSZtYWnGF4FRhhd6hYv36zizpPT8j-1ZoQZ_nNDtYQjxuSDm1XE-hZ9oopxyswGWBA_SvS)"
    R"(YbVUEF7q-HppF50kFJjob19kMamxaX8YYCuZzhRqNKLfhKjctR7tzeKIAmiq9Lk50bxs-gZgfM9slh3w7Jp8)"
    R"(ZmfnXTU-piU0ZHK0NiXc50--s-ziLmFDFxlRn1JYsxclxjhCgY660bmGWQjj5ZqGHzbUQ","e":"AQAB"},{)"
    R"("use":"sig","kty":"EC","kid":"e","alg":"ES256","crv":"P-256","x":"fA4pOspdC5qP95EY5I)"
    R"(ZHVwaxHf_RrQu4Tl2Iu9r9unY","y":"Bna7GB_xNlJuDVaF92J9maecAgSzHbyhD_x3ilvtmuw"}]})";
constexpr std::string_view kSigned[] = {
    "eyJhbGciOiJSUzI1NiIsImtpZCI6InIifQ.eyJhdWQiOiJsb25naGF1bC5kZXYvam9iLzEiLCJleHAiOjE3M"
    "DAwMDM2MDAsInN1YiI6InMifQ.pMSFLeiGqQLQtqit4xHII4K1OFdXwg_j-B_TL363ICYXZoGSx49Rev_4i5"
    "Jl-2baCbJBzjEoOF0Vd3YNX5eyYVFw0GoVkwO0nI5sxmDRTCFdCV50gdJEb5kNEfgkVkEa7occNxOCRYzr6E"
    "YVqhcp1lMZng243kRySYR5qGwVHApR9hxWtC56qKaxBzus30S5_Mjt-Qme-aBQYuQCaNkcjWEO4kHWfFXNzg"
    "JHVsCdjGj-FC-LTD-entamiM9bRmD6xJqH5xt19jeJFLZTVYACh8x6itT8HKhU6-jgyfoOC--I6kqytTzwUX"
    "YbCihSrg4FWNm3iKXHRi30AGq3oMx08A",
    "eyJhbGciOiJFUzI1NiIsImtpZCI6ImUifQ.eyJhdWQiOlsibG9uZ2hhdWwuZGV2L2pvYi8xIl0sImV4cCI6M"
    "TcwMDAwMzYwMCwiaWF0IjoxNzAwMDAwMDAwLCJpc3MiOiJodHRwczovL2t1YmVybmV0ZXMuZGVmYXVsdC5zd"
    "mMiLCJqdGkiOiJqIiwia3ViZXJuZXRlcy5pbyI6eyJuYW1lc3BhY2UiOiJyZXNlYXJjaCIsIm5vZGUiOnsib"
    "mFtZSI6Im4ifSwicG9kIjp7Im5hbWUiOiJ0dW5lLXdvcmtlci0wIiwidWlkIjoidSJ9LCJzZXJ2aWNlYWNjb"
    "3VudCI6eyJuYW1lIjoiZGVmYXVsdCIsInVpZCI6InYifX0sIm5iZiI6MTcwMDAwMDAwMCwic3ViIjoic3lzd"
    "GVtOnNlcnZpY2VhY2NvdW50OnJlc2VhcmNoOmRlZmF1bHQifQ.6KfUMt6i2Y7aAxt51cBSnNYm3kdLx5hpOU"
    "mLUaMml8n2nAz0ey3FI8u1E0OkUnAF0BsNqX82ctI9AkCwKuKBBg"};

TokenKeys Parsed(std::string_view text) {
  Result<TokenKeys> keys = TokenKeys::Parse(text);
  CHECK(keys.ok()) << keys.status();
  return *std::move(keys);
}

void CheckToken(std::string_view token) {
  static const TokenKeys keys = Parsed(kKeys);
  const Result<TokenClaims> claims = keys.Verify(token, kAudience, kNow);
  const bool known = token == kSigned[0] || token == kSigned[1];
  CHECK(claims.ok() == known) << token;
}

void CheckClaims(const std::string& payload) {
  static const TokenSigner signer = TokenSigner::Ec("k", "P-256");
  static const TokenKeys keys = Parsed(KeySet({signer.Jwk()}));
  const std::string token = signer.Sign(signer.Header(), payload);
  const Result<TokenClaims> claims = keys.Verify(token, kAudience, kNow);
  if (!claims.ok()) {
    CHECK(claims.status().code() == Code::kUnauthenticated) << claims.status();
    return;
  }
  CHECK(claims->expires + TokenKeys::kLeeway > kNow);
  CHECK(!claims->subject.empty());
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string text(reinterpret_cast<const char*>(data), size);
  CheckToken(text);
  if (size <= 8192) CheckClaims(text);
  return 0;
}
