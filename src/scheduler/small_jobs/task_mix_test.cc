#include "scheduler/small_jobs/task_mix.h"

#include <gtest/gtest.h>

namespace longhaul::scheduler {
namespace {

MixEntry Entry(uint32_t shape, int64_t weight) { return {ShapeId{shape}, weight}; }

TEST(TaskMix, TakesTheMostFrequentUpToNineteenTwentieths) {
  const TaskMix mix =
      MakeTaskMix({Entry(0, 4), Entry(1, 60), Entry(2, 0), Entry(3, 35), Entry(4, 1)});
  EXPECT_EQ(mix.entries,
            (std::vector<MixEntry>{Entry(1, 60), Entry(3, 35), Entry(0, 4), Entry(4, 1)}));
  EXPECT_EQ(mix.typical, 2u);  // 95 of 100
  EXPECT_EQ(mix.typical_weight, 95);
}

TEST(TaskMix, BreaksTiesByShape) {
  const TaskMix mix = MakeTaskMix({Entry(7, 5), Entry(2, 5)});
  EXPECT_EQ(mix.entries.front().shape, ShapeId{2});
}

TEST(TaskMix, ScalesCountsThatWouldOverflowScores) {
  const int64_t huge = int64_t{1} << 62;
  const TaskMix mix = MakeTaskMix({Entry(0, huge), Entry(1, huge), Entry(2, 1)});
  EXPECT_EQ(mix.entries, (std::vector<MixEntry>{Entry(0, 500'000 - 1), Entry(1, 500'000 - 1)}));
}

TEST(TaskMix, OfNothingIsEmpty) {
  EXPECT_EQ(MakeTaskMix({}).typical, 0u);
  EXPECT_EQ(ArrivalCounter(10).Mix(), TaskMix{});
}

TEST(TaskMix, IsAsFarFromAnotherAsArrivalsDiffer) {
  const TaskMix half = MakeTaskMix({Entry(0, 50), Entry(1, 50)});
  EXPECT_EQ(DistancePerMille(half, half), 0);
  EXPECT_EQ(DistancePerMille(half, MakeTaskMix({Entry(0, 500), Entry(1, 500)})), 0) << "parts";
  const int64_t tenth = DistancePerMille(half, MakeTaskMix({Entry(0, 60), Entry(1, 40)}));
  EXPECT_NEAR(static_cast<double>(tenth), 100, 1);
  EXPECT_EQ(tenth, DistancePerMille(MakeTaskMix({Entry(0, 60), Entry(1, 40)}), half));
  EXPECT_EQ(DistancePerMille(half, MakeTaskMix({Entry(2, 7)})), 1'000);
  EXPECT_EQ(DistancePerMille(half, TaskMix{}), 1'000);
  EXPECT_EQ(DistancePerMille(TaskMix{}, TaskMix{}), 1'000);
}

TEST(ArrivalCounter, ForgetsByHalves) {
  ArrivalCounter counter(8);
  for (int i = 0; i < 8; ++i) counter.Count(ShapeId{0});
  EXPECT_EQ(counter.Mix().entries.front(), Entry(0, 8));
  counter.Count(ShapeId{1});  // the ninth: 8 and 1 become 4 and 0
  EXPECT_EQ(counter.Mix().entries, (std::vector<MixEntry>{Entry(0, 4)}));
  EXPECT_EQ(counter.arrivals(), 9u);
}

TEST(ArrivalCounter, BearsAFloodOfOneShape) {
  ArrivalCounter counter(8);
  counter.Count(ShapeId{3}, int64_t{1} << 62);
  EXPECT_EQ(counter.Mix().entries, (std::vector<MixEntry>{Entry(3, 8)}));
}

}  // namespace
}  // namespace longhaul::scheduler
