#include "service/security/tls_files.h"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <cstdlib>
#include <filesystem>

#include "io/files/file.h"
#include "io/files/private_files.h"

namespace longhaul::service::tls_files_test {
namespace {

const Instant kNow = InstantFromNanoseconds(1'769'846'400'000'000'000);  // 2026-01-31T08:00:00Z
const std::string kNames[] = {"controller.example"};

class TlsFilesTest : public testing::Test {
 protected:
  TlsFilesTest() {
    std::string pattern = testing::TempDir() + "/tls_XXXXXX";
    directory_ = ::mkdtemp(pattern.data());
    paths_ = OwnTlsPaths(directory_);
    const auto made = InitTls(directory_, kNames, kNow);
    EXPECT_TRUE(made.ok()) << made.status();
  }
  ~TlsFilesTest() override { std::filesystem::remove_all(directory_); }

  // Expects one line that has each of these texts.
  void ExpectRefusal(const std::vector<std::string>& texts, const std::string& host = "localhost",
                     Instant now = kNow) {
    const Status refused = LoadServerTls(paths_, std::span(&host, 1), now).status();
    ASSERT_FALSE(refused.ok());
    EXPECT_EQ(refused.message().find('\n'), std::string::npos) << refused;
    for (const std::string& text : texts) {
      EXPECT_NE(refused.message().find(text), std::string::npos)
          << text << " is not in " << refused;
    }
  }

  std::string directory_;
  TlsPaths paths_;
};

TEST_F(TlsFilesTest, MakesWhatItAccepts) {
  const std::string hosts[] = {"controller.example", "localhost", "127.0.0.1", "::1", "0.0.0.0"};
  const auto loaded = LoadServerTls(paths_, hosts, kNow);
  ASSERT_TRUE(loaded.ok()) << loaded.status();
  EXPECT_EQ(loaded->ca_file, directory_ + "/tls/ca.crt");
  for (const std::string& key : {paths_.key, directory_ + "/tls/ca.key"}) {
    struct stat facts {};
    ASSERT_EQ(::stat(key.c_str(), &facts), 0);
    EXPECT_EQ(facts.st_mode & 07777, 0600u) << key;
  }
}

TEST_F(TlsFilesTest, KeepsTheAuthorityWhenTheServersCertificateIsRenewed) {
  const std::string before = *io::ReadText(paths_.ca, 1 << 20);
  const std::string old = *io::ReadText(paths_.certificate, 1 << 20);
  const auto again = InitTls(directory_, kNames, kNow + std::chrono::hours(24));
  ASSERT_TRUE(again.ok()) << again.status();
  EXPECT_FALSE(again->new_authority);
  EXPECT_EQ(*io::ReadText(paths_.ca, 1 << 20), before);
  EXPECT_NE(*io::ReadText(paths_.certificate, 1 << 20), old);
}

TEST_F(TlsFilesTest, NamesTheFileAndTheRemedy) {
  ExpectRefusal({paths_.certificate, "controller.example", "not for evil.example", "init DIR"},
                "evil.example");
  ExpectRefusal({paths_.certificate, "expired", "2027-01-31", "init DIR"}, "localhost",
                kNow + kServerValidity);
  ExpectRefusal({paths_.certificate, "not yet valid"}, "localhost", kNow - std::chrono::hours(1));
  ASSERT_EQ(::chmod(paths_.key.c_str(), 0644), 0);
  ExpectRefusal({paths_.key, "0644", "chmod 600"});
  ASSERT_TRUE(io::WritePrivateText(paths_.key, *MakeKey()).ok());
  ExpectRefusal({paths_.key, paths_.certificate, "not the one of the certificate"});
  ASSERT_TRUE(io::WritePrivateText(paths_.certificate, "nothing").ok());
  ExpectRefusal({paths_.certificate, "no certificate in PEM"});
  std::filesystem::remove(paths_.key);
  ExpectRefusal({paths_.key});
}

TEST_F(TlsFilesTest, RefusesACertificateOfAnotherAuthority) {
  const CertificateAndKey other = *MakeAuthority("other", kNow, std::chrono::hours(1000));
  ASSERT_TRUE(io::WritePrivateText(paths_.ca, other.certificate).ok());
  ExpectRefusal({paths_.certificate, paths_.ca, "init DIR"});
}

TEST_F(TlsFilesTest, KeepsTheAuthorityOfAgentsAndTheirSecret) {
  const auto first = AgentAuthority(directory_, kNow);
  ASSERT_TRUE(first.ok()) << first.status();
  EXPECT_EQ(AgentAuthority(directory_, kNow)->certificate, first->certificate);
  const auto secret = PeerSecret(directory_);
  ASSERT_TRUE(secret.ok()) << secret.status();
  EXPECT_EQ(*PeerSecret(directory_), *secret);
}

}  // namespace
}  // namespace longhaul::service::tls_files_test
