#include "planner/search/knapsack.h"

#include <gtest/gtest.h>

#include <limits>
#include <random>

namespace longhaul::planner::search {
namespace {

TEST(ChooseRecompute, IsWhatOneWorksOutByHand) {
  // Norms free 2 for 1 s, the FFN 7 for 3 s: of 12 bytes, two FFNs (14, 6 s) beat one with three
  // norms (13, 6 s is a tie) and six norms do not exist.
  const RecomputeItem items[] = {{1, 2, 4}, {3, 7, 2}};
  const auto plan = ChooseRecompute(items, 12);
  ASSERT_TRUE(plan);
  EXPECT_EQ(plan->seconds, 6);
  EXPECT_GE(plan->bytes, 12);
  EXPECT_EQ(ChooseRecompute(items, 23), std::nullopt);
  EXPECT_EQ(ChooseRecompute(items, 22)->layers, (std::vector<uint32_t>{4, 2}));
  EXPECT_EQ(ChooseRecompute(items, 0)->seconds, 0);
}

double Walked(std::span<const RecomputeItem> items, int64_t needed) {
  if (needed <= 0) return 0;
  if (items.empty()) return std::numeric_limits<double>::infinity();
  double best = std::numeric_limits<double>::infinity();
  for (uint32_t layers = 0; layers <= items[0].layers; ++layers) {
    best = std::min(best, layers * items[0].seconds +
                              Walked(items.subspan(1), needed - layers * items[0].bytes));
  }
  return best;
}

TEST(ChooseRecompute, AgreesWithWalkingAllChoices) {
  std::mt19937_64 rng(11);
  int solved = 0;
  for (int i = 0; i < 2'000; ++i) {
    std::vector<RecomputeItem> items(1 + rng() % 5);
    for (RecomputeItem& item : items) {
      item = {static_cast<double>(rng() % 20), static_cast<int64_t>(rng() % 30),
              static_cast<uint32_t>(rng() % 6)};
    }
    const auto needed = static_cast<int64_t>(rng() % 200);
    const double want = Walked(items, needed);
    const auto plan = ChooseRecompute(items, needed);
    ASSERT_EQ(plan.has_value(), want < std::numeric_limits<double>::infinity()) << i;
    if (!plan) continue;
    ++solved;
    ASSERT_NEAR(plan->seconds, want, 1e-9) << i;
    ASSERT_GE(plan->bytes, needed) << i;
  }
  EXPECT_GT(solved, 500);
}

}  // namespace
}  // namespace longhaul::planner::search
