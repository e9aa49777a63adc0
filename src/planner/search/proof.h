// Checks that a search pruned correctly: compares each recorded region with the final best.
//
// With fresh oracles, for every region: its bound is computed again and must not be below what the
// region could have improved (the best of its family in the list, else the last of the list), its
// memory must be above the limit, or its layouts beyond every framework; and two of its points,
// spread over it, are computed in full and must not be below the bound. Regions and evaluated
// points must add up to the size of the space, which is counted separately. This shows that no
// layout of the space is better than the list, if the bounds hold everywhere as they do in the
// sample and in the tests.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "planner/search/search.h"

namespace longhaul::planner::search {

struct Proof {
  uint64_t space_points = 0;    // counted by the sizes of the axes
  uint64_t covered_points = 0;  // evaluated or in a region
  uint64_t regions = 0;
  uint64_t audited_points = 0;
  std::vector<std::string> gaps;  // failed conditions, at most ten; empty: proved

  bool holds() const { return gaps.empty() && space_points == covered_points; }
};

// Requires an outcome with its regions, neither cancelled nor limited.
Proof Prove(const PlanRequest& job, const OracleFactory& oracle, const Outcome& outcome,
            const Options& options = {});

}  // namespace longhaul::planner::search
