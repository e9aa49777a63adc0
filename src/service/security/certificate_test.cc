#include "service/security/certificate.h"

#include <gtest/gtest.h>

namespace longhaul::service::certificate_test {
namespace {

using std::chrono::hours;

const Instant kNow = InstantFromNanoseconds(1'769'846'400'000'000'000);  // 2026-01-31T08:00:00Z
const CertificateAndKey kAuthority = *MakeAuthority("test", kNow, hours(1000));

std::string ClientOf(const CertificateAndKey& authority, const std::string& node,
                     Duration validity) {
  const std::string request = *MakeRequest(*MakeKey());
  const auto made = SignRequest(authority, request, node, kNow, validity);
  EXPECT_TRUE(made.ok()) << made.status();
  return made.ok() ? *made : "";
}

TEST(Certificate, OfAServerIsForItsNamesOnly) {
  const std::string names[] = {"controller.example", "*.lab.example", "10.0.0.7", "::1"};
  const auto made = MakeServerCertificate(kAuthority, names, kNow, hours(10));
  ASSERT_TRUE(made.ok()) << made.status();
  for (const char* host : {"controller.example", "a.lab.example", "10.0.0.7", "::1"}) {
    EXPECT_TRUE(IsForHost(made->certificate, host)) << host;
  }
  for (const char* host : {"evil.example", "a.b.lab.example", "10.0.0.8", "::2", "", "test"}) {
    EXPECT_FALSE(IsForHost(made->certificate, host)) << host;
  }
  const auto facts = ReadCertificate(made->certificate);
  ASSERT_TRUE(facts.ok()) << facts.status();
  EXPECT_EQ(facts->names, std::vector<std::string>(std::begin(names), std::end(names)));
  EXPECT_EQ(facts->not_before, kNow - kClockDifference);
  EXPECT_EQ(facts->not_after, kNow + hours(10));
}

// What the syntax of the extension would read as further names or as a file.
TEST(Certificate, RefusesNamesThatAreNone) {
  for (const std::string& name :
       {std::string(), std::string("a,DNS:b"), std::string("a b"), std::string("dir:x"),
        std::string("@section"), std::string("a\nb"), std::string(300, 'a')}) {
    const auto made = MakeServerCertificate(kAuthority, std::span(&name, 1), kNow, hours(1));
    EXPECT_EQ(made.status().code(), Code::kInvalidArgument) << name;
  }
}

TEST(Certificate, OfAClientNamesItsNode) {
  const std::string certificate = ClientOf(kAuthority, "node-1", hours(10));
  const auto node = VerifyClient(certificate, kAuthority.certificate, kNow);
  ASSERT_TRUE(node.ok()) << node.status();
  EXPECT_EQ(*node, "node-1");
}

TEST(Certificate, IsRefusedBeforeAndAfterItsTime) {
  const std::string certificate = ClientOf(kAuthority, "node-1", hours(10));
  const auto code = [&](Instant at) {
    return VerifyClient(certificate, kAuthority.certificate, at).status().code();
  };
  EXPECT_EQ(code(kNow - kClockDifference), Code::kOk);
  EXPECT_EQ(code(kNow - 2 * kClockDifference), Code::kUnauthenticated);
  EXPECT_EQ(code(kNow + hours(10) - std::chrono::seconds(1)), Code::kOk);
  const Status late = VerifyClient(certificate, kAuthority.certificate, kNow + hours(10)).status();
  EXPECT_EQ(late.code(), Code::kUnauthenticated);
  EXPECT_NE(late.message().find("node-1 is refused: certificate has expired"), std::string::npos)
      << late;
}

TEST(Certificate, OfAnotherAuthorityOrAServerIsNoClients) {
  const CertificateAndKey other = *MakeAuthority("test", kNow, hours(1000));
  const std::string forged = ClientOf(other, "node-1", hours(10));
  EXPECT_FALSE(VerifyClient(forged, kAuthority.certificate, kNow).ok());
  const std::string name = "node-1";
  const auto server = MakeServerCertificate(kAuthority, std::span(&name, 1), kNow, hours(10));
  EXPECT_FALSE(VerifyClient(server->certificate, kAuthority.certificate, kNow).ok());
  EXPECT_FALSE(VerifyClient("", kAuthority.certificate, kNow).ok());
  // A client's certificate is no authority.
  const std::string key = *MakeKey();
  const auto client = SignRequest(kAuthority, *MakeRequest(key), "node-1", kNow, hours(10));
  const std::string chained = ClientOf({*client, key}, "node-2", hours(5));
  EXPECT_FALSE(VerifyClient(chained, kAuthority.certificate, kNow).ok());
}

TEST(Certificate, OfAServerIsVerifiedWithItsChain) {
  const std::string name = "a";
  const auto server = MakeServerCertificate(kAuthority, std::span(&name, 1), kNow, hours(10));
  const std::string& root = kAuthority.certificate;
  EXPECT_TRUE(VerifyServer(server->certificate + root, root, kNow).ok());
  EXPECT_FALSE(VerifyServer(server->certificate, root, kNow + hours(11)).ok());
  EXPECT_FALSE(VerifyServer(ClientOf(kAuthority, "a", hours(10)), root, kNow).ok());
  const CertificateAndKey other = *MakeAuthority("test", kNow, hours(1000));
  EXPECT_FALSE(VerifyServer(server->certificate, other.certificate, kNow).ok());
  EXPECT_FALSE(VerifyServer(server->certificate + other.certificate, other.certificate, kNow).ok());
}

TEST(Certificate, IsNotMadeForADamagedRequest) {
  std::string request = *MakeRequest(*MakeKey());
  request[request.size() / 2] = request[request.size() / 2] == 'A' ? 'B' : 'A';
  for (const std::string& text : {std::string(), std::string("x"), request}) {
    EXPECT_EQ(SignRequest(kAuthority, text, "node-1", kNow, hours(1)).status().code(),
              Code::kInvalidArgument);
  }
}

TEST(Certificate, BelongsToItsKeyOnly) {
  const std::string name = "a";
  const auto made = MakeServerCertificate(kAuthority, std::span(&name, 1), kNow, hours(10));
  EXPECT_TRUE(CheckKey(made->certificate, made->key).ok());
  EXPECT_FALSE(CheckKey(made->certificate, *MakeKey()).ok());
  EXPECT_FALSE(CheckKey(made->certificate, "x").ok());
  EXPECT_FALSE(CheckKey("x", made->key).ok());
}

TEST(Certificate, HasAFingerprintOfItsOwn) {
  const std::string own = *Fingerprint(kAuthority.certificate);
  EXPECT_EQ(own.size(), 64u);
  EXPECT_EQ(own, *Fingerprint(kAuthority.certificate + "\n" + kAuthority.certificate));
  EXPECT_NE(own, *Fingerprint(MakeAuthority("test", kNow, hours(1000))->certificate));
}

TEST(Certificate, OfAnAgentHasItsGeneration) {
  for (const uint64_t generation : {uint64_t{0}, uint64_t{1}, uint64_t{12}}) {
    const auto made =
        SignRequest(kAuthority, *MakeRequest(*MakeKey()), "node-1", kNow, hours(1), generation);
    ASSERT_TRUE(made.ok()) << made.status();
    EXPECT_EQ(ReadCertificate(*made)->generation, generation);
    EXPECT_EQ(ReadCertificate(*made)->common_name, "node-1");
  }
}

}  // namespace
}  // namespace longhaul::service::certificate_test
