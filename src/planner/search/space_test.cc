#include "planner/search/space.h"

#include <gtest/gtest.h>

#include <numeric>
#include <set>

#include "planner/search/random_job_testing.h"

namespace longhaul::planner::search {
namespace {

TEST(Divisors, AreAllAndAscending) {
  EXPECT_EQ(Divisors(12), (std::vector<uint32_t>{1, 2, 3, 4, 6, 12}));
  EXPECT_EQ(Divisors(49), (std::vector<uint32_t>{1, 7, 49}));
  EXPECT_EQ(Divisors(1), std::vector<uint32_t>{1});
}

TEST(Space, HoldsLegalTrainingsOnlyAndCountsThem) {
  for (uint64_t seed = 1; seed <= 12; ++seed) {
    const PlanRequest job = RandomJob(seed);
    uint64_t points = 0;
    ForEachPoint(job, [&](const Shape& shape, const spec::Training& training) {
      // A thousandth, or the first of them: the check builds texts.
      if (points++ % 997 != 0) return;
      spec::DeviceCluster cluster = job.cluster;
      if (!job.gpus.empty()) cluster.devices = shape.gpus.devices;
      const Status status = spec::CheckTraining(job.model, cluster, training);
      EXPECT_TRUE(status.ok()) << "seed " << seed << ": " << status;
    });
    EXPECT_EQ(points, CountPoints(job)) << "seed " << seed;
    EXPECT_GT(points, 0u) << "seed " << seed;
  }
}

TEST(Space, KeepsWhatIsFixed) {
  PlanRequest job = RandomJob(3);
  job.cluster.devices = 16;
  job.model.layers = 8;
  job.fixed.tensor = 2;
  job.fixed.pipeline = 2;
  job.fixed.zero_stage = 1;
  job.fixed.micro_batch = 2;
  uint64_t points = 0;
  ForEachPoint(job, [&](const Shape& shape, const spec::Training& training) {
    ++points;
    EXPECT_EQ(shape.tensor, 2u);
    EXPECT_EQ(shape.pipeline, 2u);
    EXPECT_EQ(training.layout.zero_stage, 1u);
    EXPECT_EQ(training.batch.micro, 2u);
  });
  EXPECT_GT(points, 0u);
}

TEST(Space, HasNoPlaceForFixedLayersThatDoNotAddUp) {
  PlanRequest job = RandomJob(1);
  job.model.layers = 6;
  job.fixed.layers_per_stage = std::vector<uint32_t>{3, 3};
  Shape shape;
  shape.pipeline = 2;
  EXPECT_FALSE(StageChoices(job, shape, 1).empty());
  job.fixed.layers_per_stage = std::vector<uint32_t>{4, 3};
  EXPECT_TRUE(StageChoices(job, shape, 1).empty());
}

TEST(Space, SpreadsLayersOverStagesInSeveralWaysWithoutLosingOne) {
  PlanRequest job = RandomJob(1);
  job.model.layers = 14;
  job.cluster.devices = 4;
  job.base.batch.global = 16;
  Shape shape;
  shape.pipeline = 4;
  std::set<std::vector<uint32_t>> splits;
  for (const Stages& stages : StageChoices(job, shape, 1)) {
    if (stages.layers.empty() || stages.virtual_pipeline > 1) continue;
    EXPECT_EQ(std::accumulate(stages.layers.begin(), stages.layers.end(), 0u), 14u);
    splits.insert(stages.layers);
  }
  // The rule itself gives 3 4 4 3.
  EXPECT_TRUE(splits.contains({3, 4, 4, 3}) == false);
  EXPECT_TRUE(splits.contains({4, 4, 4, 2}));
  EXPECT_GE(splits.size(), 2u);
}

// Four dimensions of several ranks have 24 orders; where two have one rank, two remain.
TEST(Orders, CountsPlacesNotNames) {
  PlanRequest job = RandomJob(1);
  Shape shape;
  shape.tensor = shape.context = shape.pipeline = shape.data = 2;
  EXPECT_EQ(Orders(job, shape).size(), 24u);
  shape.context = 1;
  EXPECT_EQ(Orders(job, shape).size(), 6u);
  shape.pipeline = 1;
  EXPECT_EQ(Orders(job, shape).size(), 2u);
  EXPECT_EQ(Orders(job, shape).front(), spec::kUsualOrder);
}

}  // namespace
}  // namespace longhaul::planner::search
