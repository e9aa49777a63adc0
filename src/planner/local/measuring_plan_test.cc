#include "planner/local/measuring_plan.h"

#include <gtest/gtest.h>

#include <map>

namespace longhaul::planner {
namespace {

// Answers with a machine of 100 GFLOP/s and 1 ns an element; returns what was asked.
std::vector<Figure> RunPlan(MeasuringPlan& plan) {
  std::vector<Figure> asked;
  while (const auto next = plan.Next()) {
    Figure figure = next->figure;
    double work = 1e-6;
    if (figure.kind == FigureKind::kMatmul) {
      work += 2e-11 * figure.sizes[0] * figure.sizes[1] * figure.sizes[2];
    } else {
      work += 1e-9 * figure.sizes[0] * std::max(1.0, figure.sizes[1]);
    }
    figure.forward_s = work;
    figure.backward_s = 2 * work;
    figure.repeats = 5;
    EXPECT_GT(next->budget_s, 0);
    EXPECT_LE(plan.done(), plan.total());
    plan.Add(figure);
    asked.push_back(figure);
  }
  return asked;
}

TEST(MeasuringPlan, AsksForSixtyMatmulsTwentyAttentionsAndAllElse) {
  MeasuringPlan plan(2, false);
  std::map<FigureKind, int> counts;
  for (const Figure& figure : RunPlan(plan)) ++counts[figure.kind];
  EXPECT_EQ(counts[FigureKind::kMatmul], 60);
  EXPECT_EQ(counts[FigureKind::kAttention], 20);
  EXPECT_EQ(counts.size(), kFigureKinds - 1);  // a whole run is measured elsewhere
  EXPECT_FALSE(counts.contains(FigureKind::kRuntime));
  EXPECT_EQ(plan.done(), plan.total());
}

TEST(MeasuringPlan, NeverAsksForASizeTwice) {
  MeasuringPlan plan(2, false);
  std::map<std::pair<FigureKind, std::array<double, 3>>, int> seen;
  for (const Figure& figure : RunPlan(plan)) {
    EXPECT_EQ(++seen[std::pair(figure.kind, figure.sizes)], 1)
        << FigureName(figure.kind) << " " << figure.sizes[0] << " " << figure.sizes[1] << " "
        << figure.sizes[2];
  }
}

TEST(MeasuringPlan, CoversTheSizesItHasNotMeasured) {
  MeasuringPlan plan(2, false);
  double widest = 0;
  double longest = 0;
  for (const Figure& figure : RunPlan(plan)) {
    if (figure.kind != FigureKind::kMatmul) continue;
    longest = std::max(longest, figure.sizes[0]);
    widest = std::max(widest, figure.sizes[1]);
  }
  EXPECT_EQ(longest, 8192);
  EXPECT_EQ(widest, 4096);
}

TEST(MeasuringPlan, QuickAsksForAboutAThird) {
  MeasuringPlan quick(2, true);
  MeasuringPlan full(2, false);
  EXPECT_LT(3 * RunPlan(quick).size(), 2 * RunPlan(full).size());
}

TEST(MeasuringPlan, SumsOverAsManyRanksAsTheMachineHasCoresAndMore) {
  MeasuringPlan plan(6, false);
  std::map<double, int> ranks;
  for (const Figure& figure : RunPlan(plan)) {
    if (figure.kind == FigureKind::kAllReduce) ++ranks[figure.sizes[0]];
  }
  EXPECT_TRUE(ranks.contains(2) && ranks.contains(6) && ranks.contains(12) && ranks.contains(24));
}

}  // namespace
}  // namespace longhaul::planner
