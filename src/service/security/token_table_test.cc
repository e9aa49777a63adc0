#include "service/security/token_table.h"

#include <gtest/gtest.h>

#include "service/security/secret.h"

namespace longhaul::service::token_table_test {
namespace {

using std::chrono::hours;

const Instant kNow = InstantFromNanoseconds(1'000'000'000'000);

NamedToken Token(const std::string& name, const std::string& secret, Role role = Role::kView) {
  return {name, role, HashOf(secret), kNow, std::nullopt};
}

TEST(Role, PermitsWhatTheRolesBeforeItPermit) {
  const Role kRoles[] = {Role::kView, Role::kOperate, Role::kAdminister};
  for (const Role has : kRoles) {
    for (const Role needs : kRoles) EXPECT_EQ(Permits(has, needs), has >= needs);
    EXPECT_EQ(*ParseRole(NameOf(has)), has);
  }
  EXPECT_EQ(ParseRole("root").status().message(),
            "the role is 'root', expected view, operate or administer");
}

TEST(TokenTable, IdentifiesTheHolderOfASecret) {
  TokenTable table;
  ASSERT_TRUE(table.Add(Token("alice", "lht_a", Role::kOperate)).ok());
  ASSERT_TRUE(table.Add(Token("bob", "lht_b")).ok());
  const auto alice = table.Identify("lht_a", kNow);
  ASSERT_TRUE(alice.ok()) << alice.status();
  EXPECT_EQ(alice->name, "alice");
  EXPECT_EQ(alice->role, Role::kOperate);
  for (const std::string& wrong : {std::string(), std::string("lht_"), std::string("lht_A"),
                                   std::string("lht_a "), HashOf("lht_a")}) {
    EXPECT_EQ(table.Identify(wrong, kNow).status().code(), Code::kUnauthenticated) << wrong;
  }
}

TEST(TokenTable, RefusesAnExpiredTokenFromItsInstantOn) {
  TokenTable table;
  NamedToken token = Token("alice", "lht_a");
  token.expires = kNow + hours(1);
  ASSERT_TRUE(table.Add(token).ok());
  EXPECT_TRUE(table.Identify("lht_a", kNow + hours(1) - Duration(1)).ok());
  const Status expired = table.Identify("lht_a", kNow + hours(1)).status();
  EXPECT_EQ(expired.code(), Code::kUnauthenticated);
  EXPECT_NE(expired.message().find("alice expired"), std::string::npos) << expired;
}

TEST(TokenTable, ForgetsARevokedToken) {
  TokenTable table;
  ASSERT_TRUE(table.Add(Token("alice", "lht_a")).ok());
  EXPECT_EQ(table.Add(Token("alice", "lht_c")).code(), Code::kAlreadyExists);
  ASSERT_TRUE(table.Revoke("alice").ok());
  EXPECT_FALSE(table.Identify("lht_a", kNow).ok());
  EXPECT_EQ(table.Revoke("alice").code(), Code::kNotFound);
  EXPECT_TRUE(table.Add(Token("alice", "lht_c")).ok());
}

TEST(TokenTable, RefusesNamesThatAreNone) {
  for (const std::string& name :
       {std::string(), std::string("local"), std::string("../x"), std::string("a b"),
        std::string(64, 'a'), std::string("-a"), std::string("a\n"), std::string("a\0b", 3)}) {
    EXPECT_EQ(TokenTable().Add(Token(name, "x")).code(), Code::kInvalidArgument) << name;
  }
}

TEST(TokenTable, HoldsOnlySoManyTokens) {
  TokenTable table;
  for (size_t i = 0; i < TokenTable::kMostTokens; ++i) {
    ASSERT_TRUE(table.Add({"t" + std::to_string(i), Role::kView, HashOf("x"), kNow, {}}).ok());
  }
  EXPECT_EQ(table.Add(Token("more", "y")).code(), Code::kResourceExhausted);
}

TEST(TokenTable, IsTheSameAfterItsTextIsRead) {
  TokenTable table;
  NamedToken token = Token("alice", "lht_a", Role::kAdminister);
  token.expires = kNow + hours(1);
  ASSERT_TRUE(table.Add(token).ok());
  ASSERT_TRUE(table.Add(Token("bob", "lht_b")).ok());
  const std::string text = table.Text();
  EXPECT_EQ(text.find("lht_"), std::string::npos) << "a secret is in the file";
  const auto read = TokenTable::Parse(text);
  ASSERT_TRUE(read.ok()) << read.status();
  EXPECT_EQ(read->Text(), text);
  EXPECT_EQ(read->Identify("lht_a", kNow)->role, Role::kAdminister);
  EXPECT_FALSE(read->Identify("lht_a", kNow + hours(1)).ok());
}

TEST(TokenTable, RefusesATextThatIsNoTable) {
  const std::string hash = HashOf("x");
  for (const std::string& text :
       {std::string(), std::string("[]"), std::string("{}"), std::string(R"({"tokens": [1]})"),
        std::string(R"({"tokens": [{"name": "a"}]})"),
        R"({"tokens": [{"name": "a", "role": "root", "sha256": ")" + hash + R"("}]})",
        std::string(R"({"tokens": [{"name": "a", "role": "view", "sha256": "00"}]})"),
        R"({"tokens": [{"name": "a", "role": "view", "sha256": ")" + hash +
            R"(", "expires_at_ns": "never"}]})"}) {
    EXPECT_FALSE(TokenTable::Parse(text).ok()) << text;
  }
}

}  // namespace
}  // namespace longhaul::service::token_table_test
