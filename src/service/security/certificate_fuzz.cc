// Any text gives the facts of a certificate, or a message. No text is a certificate or a request of
// an authority that did not sign it.
#include <cstddef>
#include <cstdint>
#include <string>

#include "base/check.h"
#include "service/security/certificate.h"

namespace longhaul::service {
namespace {

constexpr Instant kNow = InstantFromNanoseconds(1'700'000'000'000'000'000);
constexpr Duration kYear = std::chrono::hours(24 * 365);

// Made anew by each process, so no stored text is signed by it.
const CertificateAndKey& Authority() {
  static const CertificateAndKey authority = [] {
    Result<CertificateAndKey> made = MakeAuthority("fuzz", kNow, kYear);
    CHECK(made.ok()) << made.status();
    return *std::move(made);
  }();
  return authority;
}

}  // namespace
}  // namespace longhaul::service

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace longhaul::service;
  const std::string text(reinterpret_cast<const char*>(data), size);
  const CertificateAndKey& authority = Authority();
  const auto facts = ReadCertificate(text);
  CHECK(facts.ok() || !facts.status().message().empty());
  if (facts.ok()) CHECK(Fingerprint(text).ok());
  CHECK(!VerifyClient(text, authority.certificate, kNow).ok());
  CHECK(!VerifyServer(text, authority.certificate, kNow).ok());
  CHECK(!CheckKey(authority.certificate, text).ok());
  (void)IsForHost(text, "node-1");
  // A request from outside may be valid; its certificate is the given node's whatever it states.
  const auto issued = SignRequest(authority, text, "node-1", kNow, kYear);
  if (issued.ok()) {
    const auto node = VerifyClient(*issued, authority.certificate, kNow);
    CHECK(node.ok() && *node == "node-1") << node.status();
  }
  return 0;
}
