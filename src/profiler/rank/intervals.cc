#include "profiler/rank/intervals.h"

#include <algorithm>

namespace longhaul::profiler {

Intervals Union(Intervals any) {
  std::sort(any.begin(), any.end(),
            [](const Interval& a, const Interval& b) { return a.begin < b.begin; });
  Intervals joined;
  for (const Interval& next : any) {
    if (next.end <= next.begin) continue;
    if (!joined.empty() && next.begin <= joined.back().end) {
      joined.back().end = std::max(joined.back().end, next.end);
    } else {
      joined.push_back(next);
    }
  }
  return joined;
}

Intervals Intersection(const Intervals& a, const Intervals& b) {
  Intervals both;
  for (size_t i = 0, j = 0; i < a.size() && j < b.size();) {
    const int64_t begin = std::max(a[i].begin, b[j].begin);
    const int64_t end = std::min(a[i].end, b[j].end);
    if (begin < end) both.push_back({begin, end});
    if (a[i].end < b[j].end)
      ++i;
    else
      ++j;
  }
  return both;
}

Intervals Difference(const Intervals& a, const Intervals& b) {
  Intervals left;
  size_t j = 0;
  for (const Interval& whole : a) {
    int64_t begin = whole.begin;
    while (j < b.size() && b[j].end <= begin) ++j;
    for (size_t k = j; k < b.size() && b[k].begin < whole.end; ++k) {
      if (begin < b[k].begin) left.push_back({begin, b[k].begin});
      begin = std::max(begin, b[k].end);
    }
    if (begin < whole.end) left.push_back({begin, whole.end});
  }
  return left;
}

int64_t Length(const Intervals& set) {
  int64_t sum = 0;
  for (const Interval& part : set) sum += part.end - part.begin;
  return sum;
}

}  // namespace longhaul::profiler
