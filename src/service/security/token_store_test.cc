#include "service/security/token_store.h"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "io/files/private_files.h"

namespace longhaul::service::token_store_test {
namespace {

const Instant kNow = InstantFromNanoseconds(1'000'000'000'000);

class TokenStoreTest : public testing::Test {
 protected:
  TokenStoreTest() {
    std::string pattern = testing::TempDir() + "/tokens_XXXXXX";
    directory_ = ::mkdtemp(pattern.data());
    path_ = directory_ + "/tokens.json";
  }
  ~TokenStoreTest() override { std::filesystem::remove_all(directory_); }

  std::unique_ptr<TokenStore> Open() {
    auto store = TokenStore::Open(path_, "the-local-one");
    EXPECT_TRUE(store.ok()) << store.status();
    return store.ok() ? *std::move(store) : nullptr;
  }

  std::string directory_;
  std::string path_;
};

TEST_F(TokenStoreTest, KeepsTokensOverARestartInAFileThatOthersCannotRead) {
  const mode_t before = ::umask(0);
  const std::string secret = *Open()->Create("alice", Role::kOperate, std::nullopt, kNow);
  ::umask(before);
  struct stat facts {};
  ASSERT_EQ(::stat(path_.c_str(), &facts), 0);
  EXPECT_EQ(facts.st_mode & 07777, 0600u);
  EXPECT_EQ(io::ReadPrivateText(path_, 1 << 20)->find(secret), std::string::npos);
  const auto again = Open()->Identify(secret, kNow);
  ASSERT_TRUE(again.ok()) << again.status();
  EXPECT_EQ(again->name, "alice");
}

TEST_F(TokenStoreTest, LetsTheLocalTokenAdminister) {
  const auto store = Open();
  EXPECT_EQ(store->Identify("the-local-one", kNow)->role, Role::kAdminister);
  EXPECT_FALSE(store->Identify("the-local-onE", kNow).ok());
  EXPECT_FALSE(store->Identify("", kNow).ok());
}

TEST_F(TokenStoreTest, RefusesAFileThatOthersMayRead) {
  ASSERT_TRUE(Open()->Create("alice", Role::kView, std::nullopt, kNow).ok());
  for (const mode_t mode : {0640u, 0604u, 0620u}) {
    ASSERT_EQ(::chmod(path_.c_str(), mode), 0);
    const Status refused = TokenStore::Open(path_, "x").status();
    EXPECT_EQ(refused.code(), Code::kPermissionDenied);
    char octal[8];
    std::snprintf(octal, sizeof octal, "%04o", mode);
    for (const std::string& part : {path_, std::string(octal), "chmod 600 " + path_}) {
      EXPECT_NE(refused.message().find(part), std::string::npos) << refused;
    }
  }
}

TEST_F(TokenStoreTest, RefusesADamagedFileInsteadOfForgettingItsTokens) {
  ASSERT_TRUE(io::WritePrivateText(path_, "{\"tokens\": [").ok());
  const Status refused = TokenStore::Open(path_, "x").status();
  EXPECT_EQ(refused.code(), Code::kDataLoss);
  EXPECT_NE(refused.message().find(path_), std::string::npos) << refused;
}

TEST_F(TokenStoreTest, ChangesNothingThatItCannotWrite) {
  const auto store = Open();
  std::filesystem::remove_all(directory_);
  EXPECT_FALSE(store->Create("alice", Role::kView, std::nullopt, kNow).ok());
  EXPECT_TRUE(store->List().empty());
}

}  // namespace
}  // namespace longhaul::service::token_store_test
