// Sets of time as sorted, disjoint half-open intervals: union, intersection, difference, length.
//
// Everything the profiler says about overlap is arithmetic on these. All results are sorted,
// disjoint and without empty intervals; touching intervals are joined.
#pragma once

#include <cstdint>
#include <vector>

namespace longhaul::profiler {

struct Interval {
  int64_t begin = 0;
  int64_t end = 0;

  friend bool operator==(const Interval&, const Interval&) = default;
};
using Intervals = std::vector<Interval>;

// Of any intervals; those that are empty or reversed count for nothing.
Intervals Union(Intervals any);
// Require results of these functions.
Intervals Intersection(const Intervals& a, const Intervals& b);
Intervals Difference(const Intervals& a, const Intervals& b);
int64_t Length(const Intervals& set);

}  // namespace longhaul::profiler
