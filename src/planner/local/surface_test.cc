#include "planner/local/surface.h"

#include <gtest/gtest.h>

#include <cmath>
#include <random>

namespace longhaul::planner {
namespace {

TEST(Surface, IsFlatAtZeroWithoutPoints) {
  const Surface surface;
  EXPECT_EQ(surface.Value({3, 4, 5}), 0);
  EXPECT_TRUE(surface.empty());
}

TEST(Surface, GoesThroughItsPointsAndIsSureThere) {
  std::vector<SurfacePoint> points;
  for (double x = 0; x < 6; ++x) {
    for (double y = 0; y < 6; ++y) points.push_back({{x, y, 0}, std::sin(x) + 0.3 * y, 0});
  }
  const Surface surface(points, 2);
  for (const SurfacePoint& point : points) {
    EXPECT_NEAR(surface.Value(point.at), point.value, 0.03);
    EXPECT_LT(surface.Deviation(point.at), 0.03);
  }
  // Between the points it is close, and it knows how close.
  EXPECT_NEAR(surface.Value({2.5, 2.5, 0}), std::sin(2.5) + 0.75, 0.1);
  EXPECT_LT(surface.left_out_error(), 0.3);
}

TEST(Surface, IsLessSureTheFartherItIsFromAnyPoint) {
  const Surface surface({{{0, 0, 0}, 1, 0}, {{1, 0, 0}, 1.2, 0}, {{2, 0, 0}, 0.9, 0}}, 1);
  double before = surface.Deviation({2, 0, 0});
  for (double x = 2.5; x < 6; x += 0.5) {
    const double now = surface.Deviation({x, 0, 0});
    EXPECT_GT(now, before) << x;
    before = now;
  }
}

TEST(Surface, KeepsTheNearestEdgeOutsideItsBox) {
  const Surface surface({{{0, 0, 0}, 1, 0}, {{4, 0, 0}, 2, 0}}, 1);
  EXPECT_EQ(surface.Value({9, 0, 0}), surface.Value({4, 0, 0}));
  EXPECT_EQ(surface.Value({-9, 0, 0}), surface.Value({0, 0, 0}));
}

TEST(Surface, AveragesWhatIsNoisyAtOnePlace) {
  std::mt19937_64 rng(3);
  std::vector<SurfacePoint> points;
  for (int i = 0; i < 40; ++i) {
    const double noise = 0.2 * (double(rng() >> 11) / double(uint64_t{1} << 53) - 0.5);
    points.push_back({{1, 0, 0}, 5 + noise, 0.1});
  }
  EXPECT_NEAR(Surface(points, 1).Value({1, 0, 0}), 5, 0.05);
}

}  // namespace
}  // namespace longhaul::planner
