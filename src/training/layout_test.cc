#include "training/layout.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>
#include <string>
#include <vector>

namespace longhaul::training::layout_test {
namespace {

TEST(Layout, TextIsReadBack) {
  for (const std::string text : {"dp1", "dp2 tp2 sp cp2 ep2 zero3 pp2x2 interleaved mb4 recompute",
                                 "pp4 zero-bubble mb8", "dp8 zero1"}) {
    const Result<Layout> layout = ParseLayout(text);
    ASSERT_TRUE(layout.ok()) << layout.status();
    EXPECT_EQ(ToString(*layout), text);
  }
}

TEST(Layout, UnknownWordsAndNumbersAreRefused) {
  for (const std::string text : {"dp0", "dpx", "zero4", "tp99999999999999999999", "pp2x", "fast"}) {
    const Result<Layout> layout = ParseLayout(text);
    ASSERT_FALSE(layout.ok()) << text;
    EXPECT_NE(layout.status().message().find('\''), std::string::npos) << layout.status();
  }
}

TEST(Layout, PlacesAndRanksAreInverse) {
  const Layout layout = *ParseLayout("dp4 tp2 cp2 ep2 pp3");
  for (uint32_t rank = 0; rank < layout.world(); ++rank) {
    const Place place = PlaceOf(layout, rank);
    EXPECT_EQ(RankOf(layout, place), rank);
    EXPECT_EQ(place.replica, place.expert_replica * 2 + place.expert_part);
  }
}

TEST(Layout, GroupsDivideTheWorld) {
  const Layout layout = *ParseLayout("dp4 tp2 cp2 ep2 pp2");
  const auto sizes = [&](auto group) {
    std::set<std::vector<uint32_t>> groups;
    for (uint32_t rank = 0; rank < layout.world(); ++rank) {
      const std::vector<uint32_t> ranks = group(rank);
      EXPECT_TRUE(std::is_sorted(ranks.begin(), ranks.end()));
      EXPECT_NE(std::find(ranks.begin(), ranks.end(), rank), ranks.end());
      groups.insert(ranks);
    }
    size_t sum = 0;
    for (const auto& ranks : groups) sum += ranks.size();
    EXPECT_EQ(sum, layout.world()) << "each rank is in one group";
    return groups.begin()->size();
  };
  EXPECT_EQ(sizes([&](uint32_t r) { return RanksOf(layout, r, {.part = true}); }), 2u);
  EXPECT_EQ(sizes([&](uint32_t r) { return RanksOf(layout, r, {.ring = true, .replica = true}); }),
            8u);
  EXPECT_EQ(sizes([&](uint32_t r) { return ExpertRanks(layout, r); }), 2u);
  EXPECT_EQ(sizes([&](uint32_t r) { return ExpertReplicas(layout, r); }), 4u);
}

TEST(Layout, APieceFromTheFrontGoesWithOneFromTheBack) {
  EXPECT_EQ(PositionsOf(8, 1, 0), (std::vector<int64_t>{0, 1, 2, 3, 4, 5, 6, 7}));
  EXPECT_EQ(PositionsOf(8, 2, 0), (std::vector<int64_t>{0, 1, 6, 7}));
  EXPECT_EQ(PositionsOf(8, 2, 1), (std::vector<int64_t>{2, 3, 4, 5}));
}

ModelConfig Small() {
  ModelConfig config;
  config.shape.layers = 4;
  config.shape.hidden = 32;
  config.shape.ffn_hidden = 64;
  config.shape.heads = 4;
  config.shape.kv_heads = 2;
  config.shape.head_dim = 8;
  config.shape.vocabulary = 101;
  config.shape.sequence_length = 16;
  return config;
}

TEST(CheckLayout, NamesBothFigures) {
  const auto why = [](const std::string& text) {
    return CheckLayout(Small(), *ParseLayout(text), 8).message();
  };
  EXPECT_EQ(why("dp2 tp2 sp cp2 pp2 mb4"), "");
  EXPECT_EQ(why("dp3"), "layout: the batch (8) cannot be divided over data * micro batches (3)");
  EXPECT_EQ(why("tp3"), "layout: heads (4) cannot be divided over tensor (3)");
  EXPECT_EQ(why("cp3"), "layout: the sequence (16) cannot be divided over 2 * context (6)");
  EXPECT_EQ(why("pp8 mb8"), "layout: layers (4) cannot be divided over stages (8)");
  EXPECT_EQ(why("dp2 ep2"), "layout: expert is 2, but the model has no experts");
  EXPECT_EQ(why("pp2x2 mb2"), "layout: chunks are of interleaved schedules only");
  EXPECT_EQ(why("pp4 interleaved mb2"),
            "layout: the micro batches of an interleaved schedule (2) cannot be divided over "
            "pipeline (4)");
}

}  // namespace
}  // namespace longhaul::training::layout_test
