#include "scheduler/small_jobs/scarcity.h"

#include <gtest/gtest.h>

namespace longhaul::scheduler {
namespace {

struct Fixture {
  ShapeTable shapes;
  std::vector<MixEntry> counts;
  SmallJobPolicy policy;

  Fixture() { policy.price_percent = 100; }
  void Add(int gpus, uint64_t models, int64_t weight) {
    Shape shape;
    shape.gpus = static_cast<uint8_t>(gpus);
    shape.models = models;
    counts.push_back({shapes.Intern(shape), weight});
  }
  std::vector<int64_t> Form(std::vector<int64_t> free) {
    return ScarcityPrices(shapes, MakeTaskMix(counts), free.size(), policy).Form(free);
  }
};

TEST(ScarcityPrices, AreZeroWhenNobodyIsPinned) {
  Fixture f;
  f.Add(1, kAnyModel, 5);
  EXPECT_EQ(f.Form({1'000, 1'000}), (std::vector<int64_t>{0, 0}));
}

// Half of the demand is pinned to model 1, which has a quarter of the free GPUs: twice what it
// has, so the price stops at 1. The two models of the other pin share it.
TEST(ScarcityPrices, AreThePartThatPinnedTasksWouldTake) {
  Fixture f;
  f.Add(1, 0b001, 40);
  f.Add(2, 0b110, 5);
  f.Add(1, kAnyModel, 50);
  // Demand 40, 10 and 50 of 100; free 10,000: worth 4,000, 1,000 and 5,000.
  EXPECT_EQ(f.Form({5'000, 1'000, 4'000}), (std::vector<int64_t>{800, 200, 200}));
  EXPECT_EQ(f.Form({2'000, 4'000, 4'000}), (std::vector<int64_t>{1'000, 125, 125}));
  f.policy.price_percent = 200;
  EXPECT_EQ(f.Form({5'000, 1'000, 4'000}), (std::vector<int64_t>{1'600, 400, 400}));
}

// Two pins that overlap on a model add up there, but not beyond the largest price.
TEST(ScarcityPrices, AddUpToTheLargest) {
  Fixture f;
  f.Add(1, 0b011, 45);
  f.Add(1, 0b110, 45);
  f.Add(1, kAnyModel, 10);
  EXPECT_EQ(f.Form({1'000, 1'000, 1'000}), (std::vector<int64_t>{675, 1'000, 675}));
}

TEST(ScarcityPrices, FadeWhenTheOthersRunShort) {
  Fixture f;
  f.Add(1, 0b01, 50);
  f.Add(1, kAnyModel, 50);
  const int64_t early = f.Form({5'000, 5'000})[0];
  const int64_t late = f.Form({5'000, 1'000})[0];
  EXPECT_LT(late, early);
}

TEST(ScarcityPrices, BearAFullClusterAndAModelThatIsGone) {
  Fixture f;
  f.Add(1, 0b01, 50);
  f.Add(1, 0b100, 50);  // no such model here
  EXPECT_EQ(f.Form({0, 0}), (std::vector<int64_t>{0, 0}));
}

}  // namespace
}  // namespace longhaul::scheduler
