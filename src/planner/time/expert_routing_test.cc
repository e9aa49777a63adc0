#include "planner/time/expert_routing.h"

#include <gtest/gtest.h>

namespace longhaul::planner {
namespace {

// By hand: pairs counted for the small ones, 4 (1 - C(96,8)/C(128,8)) for DeepSeek-V3 on as many
// nodes as it has groups, which without them would be 8 (1 - C(224,8)/C(256,8)).
TEST(PlacesOfToken, CountsAPlaceOnce) {
  const struct {
    spec::Experts experts;
    Routing routing;
    double places;
    double want;
  } kRows[] = {
      {{.count = 8, .top_k = 2}, Routing::kEven, 1, 1},
      {{.count = 8, .top_k = 2}, Routing::kEven, 8, 2},
      {{.count = 6, .top_k = 2}, Routing::kEven, 3, 1.8},
      {{.count = 256, .top_k = 8}, Routing::kEven, 8, 5.294652},
      {{.count = 256, .top_k = 8, .groups = 8, .groups_top_k = 4}, Routing::kEven, 8, 3.629011},
      {{.count = 8, .top_k = 2, .groups = 4, .groups_top_k = 2}, Routing::kEven, 2, 13.0 / 9},
      {{.count = 256, .top_k = 8}, Routing::kConsecutive, 64, 2},
      {{.count = 256, .top_k = 8}, Routing::kConsecutive, 8, 1},
      {{.count = 384, .top_k = 8}, Routing::kConsecutive, 32, 4.0 / 3},
  };
  for (const auto& row : kRows) {
    EXPECT_NEAR(PlacesOfToken(row.experts, row.routing, row.places), row.want, 1e-6)
        << row.experts.count << " experts on " << row.places;
  }
}

TEST(PlacesOfToken, NeverFallsWithPlacesNorPassesWhatATokenVisits) {
  for (const uint32_t groups : {1u, 2u, 4u, 8u}) {
    const spec::Experts experts = {
        .count = 64, .top_k = 6, .groups = groups, .groups_top_k = (groups + 1) / 2};
    double before = 0;
    for (double places = 1; places <= 64; places *= 2) {
      const double now = PlacesOfToken(experts, Routing::kEven, places);
      EXPECT_GE(now, before - 1e-9) << groups << " groups on " << places;
      EXPECT_LE(now, 6 + 1e-9) << groups << " groups on " << places;
      before = now;
    }
  }
}

}  // namespace
}  // namespace longhaul::planner
