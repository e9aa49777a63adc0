// What each rank's time went to: its segments added up, and exposed communication by dimension,
// split into waiting, wire and a pipeline's bubbles (across/exposure.h), so that a rank's sums are
// its wall time.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "profiler/across/exposure.h"
#include "profiler/across/job.h"

namespace longhaul::profiler {

struct RankTotals {
  std::array<int64_t, kSpentKinds> spent_ns = {};
  std::array<int64_t, kDimensions> wait_ns = {};  // exposed, by dimension
  std::array<int64_t, kDimensions> wire_ns = {};  // exposed; calls that matched none count here
  int64_t bubble_ns = 0;                          // exposed, that the schedule asks for
  int64_t late_bubble_ns = 0;                     // and that it doesn't
  std::array<int64_t, kDimensions> hidden_ns = {};
  std::array<int64_t, kPhases> phase_ns = {};
  int64_t wall_ns = 0;
  uint64_t last_arrivals = 0;  // collectives at which it came last, by over 10 us
  int64_t compute_ns() const;
  int64_t sum_ns() const;  // equal to the wall, or something is wrong
};

// Of each rank.
std::vector<RankTotals> TotalsOf(const Job& job, const Exposed& exposed);

}  // namespace longhaul::profiler
