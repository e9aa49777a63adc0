#include "profiler/across/critical_path.h"

#include <algorithm>

namespace longhaul::profiler {

CriticalPath FindCriticalPath(const ProfiledJob& job) {
  CriticalPath path;
  size_t rank = 0;
  bool any = false;
  for (size_t r = 0; r < job.ranks.size(); ++r) {
    const auto& segments = job.ranks[r].segments;
    if (segments.empty()) continue;
    if (!any || segments.back().end_ns > job.ranks[rank].segments.back().end_ns) rank = r;
    any = true;
  }
  if (!any) return path;
  int64_t time = job.ranks[rank].segments.back().end_ns;
  const auto add = [&path](CriticalPath::Piece piece) {
    if (piece.end_ns > piece.begin_ns) path.pieces.push_back(piece);
  };
  // Each pass adds the piece before `time` and lowers `time`: to the begin of the segment, or to
  // the last arrival within it, where the path goes over to the rank that arrived last.
  for (;;) {
    const auto& segments = job.ranks[rank].segments;
    auto after = std::lower_bound(segments.begin(), segments.end(), time,
                                  [](const Segment& s, int64_t t) { return s.begin_ns < t; });
    if (after == segments.begin()) break;
    const Segment& segment = *std::prev(after);
    const int32_t i = segment.collective < 0
                          ? -1
                          : job.instance_of[rank][static_cast<size_t>(segment.collective)];
    if (segment.spent != Spent::kExposed || i < 0) {
      const Dimension dimension =
          segment.collective < 0 ? Dimension::kUnknown
                                 : job.DimensionOf(rank, static_cast<size_t>(segment.collective));
      add({rank, segment.begin_ns, time, segment.spent, dimension});
      time = segment.begin_ns;
      continue;
    }
    const Instance& instance = job.instances[static_cast<size_t>(i)];
    // The path may enter the call before its end, and clocks of hosts agree only to within their
    // residual, so the last arrival may lie behind the present time.
    const int64_t arrived = std::min(instance.last_arrival_ns, time);
    const int64_t wire_begin = std::max(arrived, segment.begin_ns);
    if (wire_begin < time) {
      add({rank, wire_begin, time, Spent::kExposed, job.groups[instance.group].dimension});
    }
    const size_t last = instance.members[instance.last_member].rank;
    if (last == rank || arrived <= segment.begin_ns || arrived >= time) {
      // Its own arrival was the last, or the clocks don't say whose: what is left was its own.
      if (arrived >= time) {
        add({rank, segment.begin_ns, time, Spent::kExposed, job.groups[instance.group].dimension});
      }
      time = segment.begin_ns;
      continue;
    }
    rank = last;
    time = arrived;
  }
  // The activity of this rank before its first kernel is unknown; it waited for something.
  int64_t first = time;
  for (const RankSummary& summary : job.ranks) {
    if (!summary.segments.empty()) first = std::min(first, summary.segments.front().begin_ns);
  }
  add({rank, first, time, Spent::kDependency});
  std::reverse(path.pieces.begin(), path.pieces.end());
  return path;
}

}  // namespace longhaul::profiler
