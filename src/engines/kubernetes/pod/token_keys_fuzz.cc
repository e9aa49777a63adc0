// Any bytes as a set of keys: what is accepted is within the limits, verifies without a crash, and
// accepts no token of a key that is not in it.

#include <cstdint>
#include <string_view>

#include "base/check.h"
#include "engines/kubernetes/pod/token_keys.h"
#include "engines/kubernetes/pod/token_signer.h"

using namespace longhaul;
using namespace longhaul::engines::kubernetes;

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  constexpr Instant kNow = Instant(std::chrono::seconds(1'700'000'000));
  // The keys are made anew by each process, so no stored text has them. Without an id, so that each
  // key of the set is tried.
  static const std::string payload = R"({"aud":"a","exp":1700000060,"sub":"s"})";
  static const std::string tokens[] = {
      TokenSigner::Rsa("").Sign(R"({"alg":"RS256"})", payload),
      TokenSigner::Ec("", "P-256").Sign(R"({"alg":"ES256"})", payload),
      TokenSigner::Ec("", "P-384").Sign(R"({"alg":"ES384"})", payload, "SHA384")};
  const Result<TokenKeys> keys = TokenKeys::Parse({reinterpret_cast<const char*>(data), size});
  if (!keys.ok()) {
    CHECK(keys.status().code() == Code::kInvalidArgument) << keys.status();
    CHECK(!keys.status().message().empty());
    return 0;
  }
  CHECK(keys->size() > 0 && keys->size() <= TokenKeys::kMostKeys);
  for (const std::string& token : tokens) {
    const Status refused = keys->Verify(token, "a", kNow).status();
    CHECK(refused.code() == Code::kUnauthenticated) << refused;
  }
  return 0;
}
