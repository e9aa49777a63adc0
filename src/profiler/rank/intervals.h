// Sets of time as sorted, disjoint half-open intervals: union, intersection, difference, length.
//
// All statements of the profiler about overlap are computed with these functions. All results are
// sorted, disjoint and without empty intervals; touching intervals are joined.
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

// The union of any intervals; empty or reversed ones are ignored.
Intervals Union(Intervals any);
// Require results of the functions here.
Intervals Intersection(const Intervals& a, const Intervals& b);
Intervals Difference(const Intervals& a, const Intervals& b);
int64_t Length(const Intervals& set);

}  // namespace longhaul::profiler
