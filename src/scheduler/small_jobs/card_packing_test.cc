#include "scheduler/small_jobs/card_packing.h"

#include <gtest/gtest.h>

#include "base/random.h"

namespace longhaul::scheduler {
namespace {

TEST(ValueCards, IsZeroWithoutFractions) { EXPECT_EQ(ValueCards({})[kWholeCard], 0); }

TEST(ValueCards, OfOneShareCountsHowOftenItFits) {
  const CardValues values = ValueCards({{300, 7}});
  EXPECT_EQ(values[299], 0);
  EXPECT_NEAR(values[300], kCardValue / 3, 1);
  EXPECT_NEAR(values[899], kCardValue * 2 / 3, 1);
  EXPECT_EQ(values[kWholeCard], kCardValue);
}

// 700 and 300 fill a card together. With equal numbers the two cost one card a pair; with more of
// 300 than pairs need, these cost a third each and 700 costs the rest.
TEST(ValueCards, PricesWhatIsLeftOver) {
  const CardValues few = ValueCards({{700, 10}, {300, 5}});
  EXPECT_NEAR(few[700], kCardValue, 1);  // each 700 takes a card; 300 rides for nothing
  EXPECT_NEAR(few[300], 0, 1);
  const CardValues many = ValueCards({{700, 10}, {300, 40}});
  EXPECT_NEAR(many[300], kCardValue / 3, 1);
  EXPECT_NEAR(many[700], kCardValue * 2 / 3, 1);
}

// Half a card is worth half: putting 470 beside 470 gives nothing away, putting 320 there does.
TEST(ValueCards, TellsAGoodPairFromASpoiltOne) {
  const CardValues values = ValueCards({{810, 345}, {470, 290}, {320, 113}, {650, 81}});
  const auto loss = [&](int free, int share) {
    return values[static_cast<size_t>(free)] - values[static_cast<size_t>(free - share)];
  };
  EXPECT_LT(loss(1'000, 470), loss(1'000, 810));
  EXPECT_NEAR(loss(530, 470), loss(1'000, 470), 2);
  EXPECT_GT(loss(530, 320), loss(1'000, 320));
}

TEST(ValueCards, AreMonotoneAndNeverSellACardTwice) {
  for (uint64_t seed = 1; seed <= 60; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    Random random(seed);
    std::vector<ShareWeight> shares;
    std::array<bool, kWholeCard> used{};
    const auto kinds = 1 + random.Below(80);
    for (uint64_t i = 0; i < kinds; ++i) {
      const auto share = 1 + random.Below(999);
      if (used[share]) continue;
      used[share] = true;
      shares.push_back({static_cast<int32_t>(share), 1 + static_cast<int64_t>(random.Below(500))});
    }
    const CardValues values = ValueCards(shares);
    ASSERT_EQ(values[0], 0);
    ASSERT_EQ(values[kWholeCard], kCardValue);
    for (size_t v = 1; v <= kWholeCard; ++v) ASSERT_GE(values[v], values[v - 1]);
    // Two parts of a card are never worth more than the card.
    for (size_t v = 0; v <= kWholeCard; ++v) {
      ASSERT_LE(values[v] + values[kWholeCard - v], kCardValue + 2);
    }
    ASSERT_EQ(values, ValueCards(shares));
  }
}

}  // namespace
}  // namespace longhaul::scheduler
