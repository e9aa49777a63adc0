#include "service/security/join_table.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>

#include "service/security/join_store.h"
#include "service/security/secret.h"

namespace longhaul::service::join_table_test {
namespace {

using std::chrono::hours;

const Instant kNow = InstantFromNanoseconds(1'769'846'400'000'000'000);

JoinTable With(const std::string& secret, const std::string& node = "") {
  JoinTable table;
  EXPECT_TRUE(table.Add({HashOf(secret), node, kNow + hours(1), "", Instant()}, kNow).ok());
  return table;
}

TEST(JoinTable, UsesATokenUpOnce) {
  JoinTable table = With("a");
  EXPECT_TRUE(table.Use("a", "node-1", kNow).ok());
  const Status replayed = table.Use("a", "node-2", kNow + hours(2));
  EXPECT_EQ(replayed.code(), Code::kUnauthenticated);
  EXPECT_NE(replayed.message().find("was used by node node-1"), std::string::npos) << replayed;
  EXPECT_EQ(table.Use("a", "node-1", kNow).code(), Code::kUnauthenticated);
  EXPECT_EQ(table.Use("b", "node-1", kNow).code(), Code::kUnauthenticated);
}

TEST(JoinTable, RefusesAnExpiredToken) {
  EXPECT_EQ(With("a").Use("a", "node-1", kNow + hours(1)).code(), Code::kUnauthenticated);
  EXPECT_TRUE(With("a").Use("a", "node-1", kNow + hours(1) - Duration(1)).ok());
}

TEST(JoinTable, KeepsATokenToItsNode) {
  JoinTable table = With("a", "node-1");
  EXPECT_EQ(table.Use("a", "node-2", kNow).code(), Code::kPermissionDenied);
  EXPECT_TRUE(table.Use("a", "node-1", kNow).ok()) << "the refusal did not use it up";
}

// Else a stolen token of any node would replace one that runs jobs.
TEST(JoinTable, LetsANodeJoinAgainOnlyByATokenOfItsOwn) {
  JoinTable table = With("a");
  ASSERT_TRUE(table.Use("a", "node-1", kNow).ok());
  ASSERT_TRUE(table.Add({HashOf("b"), "", kNow + hours(1), "", {}}, kNow).ok());
  ASSERT_TRUE(table.Add({HashOf("c"), "node-1", kNow + hours(1), "", {}}, kNow).ok());
  EXPECT_EQ(table.Use("b", "node-1", kNow).code(), Code::kPermissionDenied);
  EXPECT_TRUE(table.Use("b", "node-2", kNow).ok());
  EXPECT_TRUE(table.Use("c", "node-1", kNow).ok());
}

TEST(JoinTable, IsTheSameAfterItsTextIsRead) {
  JoinTable table = With("a");
  ASSERT_TRUE(table.Use("a", "node-1", kNow).ok());
  ASSERT_TRUE(table.Add({HashOf("b"), "node-3", kNow + hours(1), "", {}}, kNow).ok());
  auto read = JoinTable::Parse(table.Text());
  ASSERT_TRUE(read.ok()) << read.status();
  EXPECT_EQ(read->Text(), table.Text());
  EXPECT_EQ(read->Use("a", "node-2", kNow).code(), Code::kUnauthenticated);
  EXPECT_TRUE(read->Use("b", "node-3", kNow).ok());
  for (const char* bad : {"", "[]", R"({"joined": []})", R"({"joined": [1], "join_tokens": []})",
                          R"({"joined": [], "join_tokens": [{}]})"}) {
    EXPECT_FALSE(JoinTable::Parse(bad).ok()) << bad;
  }
}

TEST(JoinTable, RefusesTheGenerationsBeforeTheLastRevocation) {
  JoinTable table = With("a");
  ASSERT_TRUE(table.Use("a", "node-1", kNow).ok());
  EXPECT_EQ(table.Revoke("node-2", kNow).code(), Code::kNotFound);
  EXPECT_TRUE(table.CheckGeneration("node-1", 0).ok());
  ASSERT_TRUE(table.Revoke("node-1", kNow).ok());
  EXPECT_EQ(table.CheckGeneration("node-1", 0).code(), Code::kUnauthenticated);
  EXPECT_EQ(table.GenerationOf("node-1"), 1u);
  EXPECT_TRUE(table.CheckGeneration("node-1", 1).ok());
  EXPECT_EQ(table.Revoke("node-1", kNow).code(), Code::kFailedPrecondition);
  EXPECT_EQ(table.NoteJoined("node-1").status().code(), Code::kPermissionDenied);
  ASSERT_TRUE(table.Add({HashOf("b"), "node-1", kNow + hours(1), "", {}}, kNow).ok());
  ASSERT_TRUE(table.Use("b", "node-1", kNow).ok());
  auto read = JoinTable::Parse(table.Text());
  ASSERT_TRUE(read.ok()) << read.status();
  EXPECT_EQ(read->Text(), table.Text());
  ASSERT_TRUE(read->Revoke("node-1", kNow).ok());
  EXPECT_EQ(read->GenerationOf("node-1"), 2u);
  EXPECT_EQ(read->CheckGeneration("node-1", 1).code(), Code::kUnauthenticated);
  for (const char* bad :
       {R"({})", R"(1)", R"({"node": "a", "generation": 0, "at_ns": 1, "joined_again": true})",
        R"({"node": "A", "generation": 1, "at_ns": 1, "joined_again": true})"}) {
    EXPECT_FALSE(JoinTable::Parse(R"({"joined": [], "join_tokens": [], "revoked": [)" +
                                  std::string(bad) + "]}")
                     .ok())
        << bad;
  }
}

TEST(JoinTable, HoldsOnlySoManyTokensAndForgetsExpiredOnes) {
  JoinTable table;
  for (size_t i = 0; i < JoinTable::kMostTokens; ++i) {
    ASSERT_TRUE(table.Add({HashOf(std::to_string(i)), "", kNow + hours(1), "", {}}, kNow).ok());
  }
  const JoinToken more{HashOf("x"), "", kNow + hours(9), "", {}};
  EXPECT_EQ(table.Add(more, kNow).code(), Code::kResourceExhausted);
  EXPECT_TRUE(table.Add(more, kNow + hours(1)).ok());
  EXPECT_EQ(table.tokens().size(), 1u);
}

TEST(JoinStore, RemembersAUsedTokenOverARestart) {
  std::string pattern = testing::TempDir() + "/join_XXXXXX";
  const std::string path = std::string(::mkdtemp(pattern.data())) + "/join-tokens.json";
  const std::string fingerprint = HashOf("authority");
  const auto text = (*JoinStore::Open(path))->Create("", fingerprint, kNow + hours(1), kNow);
  ASSERT_TRUE(text.ok()) << text.status();
  const auto token = ParseJoinToken(*text + "\n");
  ASSERT_TRUE(token.ok()) << token.status();
  EXPECT_EQ(token->fingerprint, fingerprint);
  EXPECT_TRUE((*JoinStore::Open(path))->Use(token->secret, "node-1", kNow).ok());
  EXPECT_EQ((*JoinStore::Open(path))->Use(token->secret, "node-2", kNow).code(),
            Code::kUnauthenticated);
  std::filesystem::remove_all(std::filesystem::path(path).parent_path());
}

TEST(JoinToken, IsRefusedWhenItIsNone) {
  const std::string hash = HashOf("x");
  for (const std::string& text :
       {std::string(), std::string("lhj_"), hash, "lhj_" + hash, "lhj_" + hash + ".",
        "lht_" + hash + "." + hash, "lhj_" + hash + "." + hash + "0"}) {
    EXPECT_EQ(ParseJoinToken(text).status().code(), Code::kInvalidArgument) << text;
  }
}

}  // namespace
}  // namespace longhaul::service::join_table_test
