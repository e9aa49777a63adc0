#include "runtime/controller/job/write_shares.h"

#include <gtest/gtest.h>

#include <map>
#include <string>

#include "base/random.h"

namespace longhaul::runtime {
namespace {

using Shares = std::vector<std::vector<uint32_t>>;

// Ranks with the same letter hold the same state; '?' is one of which nothing is known.
RankContents Contents(const std::string& letters, uint64_t bytes = 100) {
  RankContents contents;
  for (const char letter : letters) {
    proto::RankContent& content = contents.emplace_back();
    if (letter == '?') continue;
    content.set_plan(static_cast<uint64_t>(letter));
    content.set_root(static_cast<uint64_t>(letter) * 1000);
    content.set_bytes(bytes);
  }
  return contents;
}

TEST(WriteShares, EachPieceIsWrittenOnceByANodeThatHoldsIt) {
  const struct {
    const char* what;
    const char* ranks;
    uint32_t per_node;
    Shares want;
  } kRows[] = {
      {"2 stages of 2 replicas, a stage a node", "aabb", 2, {{0}, {2}}},
      {"2 stages of 2 replicas, a rank a node", "aabb", 1, {{0}, {}, {2}, {}}},
      {"2 replicas of 2 tensor parts, a replica a node", "abab", 2, {{0}, {3}}},
      {"3 replicas of 3 parts", "abcabcabc", 3, {{0}, {4}, {8}}},
      {"4 replicas of 2 parts on 2 nodes", "abababab", 4, {{0}, {5}}},
      {"nothing is alike", "abcd", 2, {{0, 1}, {2, 3}}},
      {"replicas that have gone apart", "abac", 2, {{0, 1}, {3}}},
      {"nothing is known", "????", 2, {{0, 1}, {2, 3}}},
  };
  for (const auto& row : kRows) {
    EXPECT_EQ(ShareOut(Contents(row.ranks), row.per_node), row.want) << row.what;
  }
}

TEST(WriteShares, TheSameBoxesWithOtherBitsAreNotTheSame) {
  RankContents contents = Contents("aa");
  contents[1].set_root(7);
  EXPECT_EQ(FirstAlike(contents), (std::vector<uint32_t>{0, 1}));
  contents = Contents("aa");
  contents[1].set_plan(7);
  EXPECT_EQ(FirstAlike(contents), (std::vector<uint32_t>{0, 1}));
}

TEST(WriteShares, TheLargestAreDealtFirst) {
  RankContents contents = Contents("abcabc");
  for (const uint32_t rank : {2u, 5u}) contents[rank].set_bytes(150);
  EXPECT_EQ(ShareOut(contents, 3), (Shares{{2}, {3, 4}}));
}

TEST(WriteShares, AFileServesTheRanksThatHaveNone) {
  EXPECT_EQ(AlsoServed(Contents("abab"), {0, 3}), (Shares{{2}, {1}}));
  EXPECT_EQ(AlsoServed(Contents("aaaa"), {2, 1}), (Shares{{}, {0, 3}})) << "of two the lowest";
  EXPECT_EQ(AlsoServed(Contents("a?a?"), {0, 1}), (Shares{{2}, {}})) << "nobody vouches for rank 3";
}

TEST(WriteShares, AnyLayoutIsCoveredAndNoNodeWritesMoreThanItsPart) {
  Random random(1);
  for (int trial = 0; trial < 2000; ++trial) {
    const auto replicas = static_cast<uint32_t>(1 + random.Below(6));
    const auto parts = static_cast<uint32_t>(1 + random.Below(8));
    const uint32_t world = replicas * parts;
    uint32_t per_node = static_cast<uint32_t>(1 + random.Below(world));
    while (world % per_node != 0) --per_node;
    const bool parts_outside = random.Below(2) == 0;  // pipeline: parts, then replicas
    std::string letters;
    for (uint32_t rank = 0; rank < world; ++rank) {
      letters += static_cast<char>('a' + (parts_outside ? rank / replicas : rank % parts));
    }
    const RankContents contents = Contents(letters);
    const Shares shares = ShareOut(contents, per_node);
    std::vector<uint32_t> written;
    for (size_t node = 0; node < shares.size(); ++node) {
      for (const uint32_t rank : shares[node]) {
        EXPECT_EQ(rank / per_node, node) << letters;
        written.push_back(rank);
      }
    }
    EXPECT_EQ(written.size(), parts) << letters << " by " << per_node;
    // A replica a node, as many nodes as replicas: the parts are dealt evenly.
    if (!parts_outside && per_node == parts) {
      for (const auto& share : shares) EXPECT_LE(share.size(), (parts + replicas - 1) / replicas);
    }
    size_t served = written.size();
    const Shares also = AlsoServed(contents, written);
    for (size_t i = 0; i < also.size(); ++i) {
      for (const uint32_t rank : also[i]) EXPECT_EQ(letters[rank], letters[written[i]]);
      served += also[i].size();
    }
    EXPECT_EQ(served, world);
  }
}

}  // namespace
}  // namespace longhaul::runtime
