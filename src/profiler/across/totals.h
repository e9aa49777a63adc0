// The time of each rank by kind: its segments added up, and exposed communication by dimension,
// divided into waiting, wire time and a pipeline's bubbles (across/exposure.h), so that a rank's
// sums are its wall time.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "profiler/across/exposure.h"
#include "profiler/across/profiled_job.h"

namespace longhaul::profiler {

struct RankTotals {
  std::array<int64_t, kSpentKinds> spent_ns = {};
  std::array<int64_t, kDimensions> wait_ns = {};  // exposed, by dimension
  std::array<int64_t, kDimensions> wire_ns = {};  // exposed; unmatched calls count here
  int64_t bubble_ns = 0;                          // exposed, as the schedule requires
  int64_t late_bubble_ns = 0;                     // exposed, beyond the schedule
  std::array<int64_t, kDimensions> hidden_ns = {};
  std::array<uint64_t, kDimensions> calls = {};
  std::array<uint64_t, kDimensions> matched_calls = {};  // with the same call of another rank
  std::array<int64_t, kPhases> phase_ns = {};
  int64_t wall_ns = 0;
  uint64_t last_arrivals = 0;  // collectives at which it arrived last, by over 10 us

  // Where no call was matched, waiting is unknown, and all exposed time counts as wire.
  bool waiting_known(size_t dimension) const {
    return calls[dimension] == 0 || matched_calls[dimension] > 0;
  }
  int64_t compute_ns() const;
  int64_t sum_ns() const;  // equal to the wall time, or there is a bug
};

// The reason why the waiting of a dimension without matched calls is unknown, and the remedy.
std::string WhyWaitingIsUnknown(const ProfiledJob& job);
// Whether all waiting of all ranks is unknown, though there are collectives.
bool AllWaitingUnknown(const std::vector<RankTotals>& totals);

// The totals of each rank.
std::vector<RankTotals> TotalsOf(const ProfiledJob& job, const Exposed& exposed);

}  // namespace longhaul::profiler
