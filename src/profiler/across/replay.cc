#include "profiler/across/replay.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <map>

namespace longhaul::profiler {
namespace {

constexpr int64_t kBackToBackNs = 5'000;
constexpr int64_t kLeaveNs = 1'000;  // members leave a call within so much of each other
constexpr int64_t kNever = INT64_MIN;

}  // namespace

Replay::Replay(const Job& job) {
  wire_.resize(job.instances.size());
  members_.resize(job.instances.size());
  ranks_of_.resize(job.instances.size());
  for (size_t i = 0; i < job.instances.size(); ++i) wire_[i] = job.instances[i].wire_ns();
  items_.resize(job.ranks.size());
  FindHidden(job);
  for (size_t rank = 0; rank < job.ranks.size(); ++rank) Build(job, rank);
}

// A rank's calls in the order in which its work comes to them.
struct Replay::Arrival {
  int64_t place_ns = 0;  // in the rank's time
  int32_t instance = -1;
  int32_t behind = -1;
};

std::vector<Replay::Arrival> Replay::Arrivals(const Job& job, size_t rank) {
  const auto& calls = job.ranks[rank].collectives;
  const int64_t begin = job.ranks[rank].segments.front().begin_ns;
  std::vector<Arrival> arrivals;
  std::map<uint32_t, std::pair<size_t, int64_t>> streams;  // last call and its place
  for (size_t i = 0; i < calls.size(); ++i) {
    const Collective& call = calls[i];
    if (call.start_ns < begin) continue;
    Arrival arrival = {call.start_ns, job.instance_of[rank][i], -1};
    const auto before = streams.find(call.track);
    if (before != streams.end() &&
        std::abs(call.start_ns - calls[before->second.first].end_ns) < kBackToBackNs) {
      // It waited for its stream: without the call before it would have begun when it was ready.
      arrival.behind = job.instance_of[rank][before->second.first];
      if (arrival.behind >= 0) {
        arrival.place_ns = std::clamp(call.ready_ns, before->second.second, call.start_ns);
      }
    }
    streams[call.track] = {i, arrival.place_ns};
    if (arrival.instance >= 0) arrivals.push_back(arrival);
  }
  std::stable_sort(arrivals.begin(), arrivals.end(),
                   [](const Arrival& a, const Arrival& b) { return a.place_ns < b.place_ns; });
  return arrivals;
}

// A dimension whose calls mostly run behind computation: nothing waits for them at once.
void Replay::FindHidden(const Job& job) {
  std::array<int64_t, kDimensions> whole = {}, exposed = {};
  for (size_t rank = 0; rank < job.ranks.size(); ++rank) {
    const RankSummary& summary = job.ranks[rank];
    for (size_t i = 0; i < summary.collectives.size(); ++i) {
      const Collective& call = summary.collectives[i];
      whole[static_cast<size_t>(job.DimensionOf(rank, i))] += call.end_ns - call.start_ns;
    }
    for (const Segment& segment : summary.segments) {
      if (segment.collective < 0) continue;
      const Dimension dimension = job.DimensionOf(rank, static_cast<size_t>(segment.collective));
      exposed[static_cast<size_t>(dimension)] += segment.end_ns - segment.begin_ns;
    }
  }
  for (size_t d = 0; d < kDimensions; ++d) hidden_[d] = exposed[d] * 2 < whole[d];
}

void Replay::Build(const Job& job, size_t rank) {
  const auto& segments = job.ranks[rank].segments;
  const auto& calls = job.ranks[rank].collectives;
  std::vector<Item>& items = items_[rank];
  begin_.push_back(segments.empty() ? 0 : segments.front().begin_ns);
  if (segments.empty()) return;
  const std::vector<Arrival> arrivals = Arrivals(job, rank);
  size_t next = 0;
  const auto arrive = [&](int64_t until) {
    for (; next < arrivals.size() && arrivals[next].place_ns < until; ++next) {
      const auto instance = static_cast<size_t>(arrivals[next].instance);
      items.push_back({0, 0, arrivals[next].instance, arrivals[next].behind, Kind::kArrive});
      ++members_[instance];
      ranks_of_[instance].push_back(static_cast<uint32_t>(rank));
    }
  };
  for (size_t s = 0; s < segments.size(); ++s) {
    Segment segment = segments[s];
    int64_t from = segment.begin_ns;
    const auto call = static_cast<size_t>(std::max(segment.collective, 0));
    const int32_t instance = segment.spent == Spent::kExposed && segment.collective >= 0
                                 ? job.instance_of[rank][call]
                                 : -1;
    // Who left before the last one came (a message is posted) did not wait for it.
    bool waits =
        instance >= 0 && calls[call].start_ns >= begin_.back() &&
        segment.end_ns + kLeaveNs >= std::min(calls[call].end_ns, segments.back().end_ns) &&
        calls[call].end_ns + kLeaveNs >=
            job.instances[static_cast<size_t>(instance)].last_arrival_ns;
    if (waits && hidden_[static_cast<size_t>(job.DimensionOf(rank, call))] &&
        s + 1 < segments.size() && segments[s + 1].spent == Spent::kHost) {
      // Nothing waited for the call: the host had nothing else ready.
      waits = false;
      segment.spent = Spent::kHost;
    }
    // Arrivals inside cut the work in two.
    while (!waits && next < arrivals.size() && arrivals[next].place_ns < segment.end_ns) {
      const int64_t at = std::max(arrivals[next].place_ns, from);
      if (at > from) items.push_back({from, at - from, -1, -1, Kind::kWork, segment.spent});
      from = at;
      arrive(arrivals[next].place_ns + 1);
    }
    arrive(segment.end_ns);
    if (waits) {
      const int64_t lead = job.instances[static_cast<size_t>(instance)].end_ns - calls[call].end_ns;
      items.push_back({0, std::clamp<int64_t>(lead, 0, wire_[static_cast<size_t>(instance)]),
                       instance, -1, Kind::kWait, segment.spent});
    } else if (segment.end_ns > from) {
      items.push_back({from, segment.end_ns - from, -1, -1, Kind::kWork, segment.spent});
    }
  }
}

// The state of one run.
class Replay::Runner {
 public:
  Runner(const Replay& replay, const Change& change)
      : replay_(replay),
        change_(change),
        arrival_(replay.wire_.size(), kNever),
        done_(replay.wire_.size(), kNever),
        missing_(replay.members_),
        behind_(replay.wire_.size()),
        at_(replay.items_.size()),
        now_(replay.begin_) {}

  double Run() {
    for (uint32_t rank = 0; rank < at_.size(); ++rank) runnable_.push_back(rank);
    do {
      while (!runnable_.empty()) {
        const uint32_t rank = runnable_.back();
        runnable_.pop_back();
        Advance(rank);
      }
    } while (Unlock());
    int64_t first = INT64_MAX;
    int64_t last = INT64_MIN;
    for (size_t rank = 0; rank < at_.size(); ++rank) {
      if (replay_.items_[rank].empty()) continue;
      first = std::min(first, replay_.begin_[rank]);
      last = std::max(last, now_[rank]);
    }
    return first > last ? 0 : static_cast<double>(last - first) * 1e-9;
  }

 private:
  // Until the rank must wait.
  void Advance(uint32_t rank) {
    const std::vector<Item>& items = replay_.items_[rank];
    for (; at_[rank] < items.size(); ++at_[rank]) {
      const Item& item = items[at_[rank]];
      const auto instance = static_cast<size_t>(std::max(item.instance, 0));
      if (item.kind == Kind::kWork) {
        const double scale = (change_.work ? change_.work(rank, item.spent) : 1) *
                             (change_.moment ? change_.moment(rank, item.begin_ns) : 1);
        now_[rank] += std::llround(static_cast<double>(item.duration_ns) * scale);
      } else if (item.kind == Kind::kWait) {
        if (done_[instance] == kNever) return;
        now_[rank] = std::max(now_[rank], done_[instance] - Scaled(instance, item.duration_ns));
      } else if (item.behind >= 0 && done_[static_cast<size_t>(item.behind)] == kNever &&
                 missing_[static_cast<size_t>(item.behind)] > 0) {
        behind_[static_cast<size_t>(item.behind)].emplace_back(instance, now_[rank]);
      } else {
        Arrive(instance, item.behind >= 0
                             ? std::max(now_[rank], done_[static_cast<size_t>(item.behind)])
                             : now_[rank]);
      }
    }
  }

  int64_t Scaled(size_t instance, int64_t wire_ns) const {
    const double scale = change_.wire ? change_.wire(instance) : 1;
    return std::llround(static_cast<double>(wire_ns) * scale);
  }

  // Ranks that wait for each other in a ring (a trace whose calls were matched wrongly): the one
  // that has come least far goes on without those missing.
  bool Unlock() {
    size_t least = at_.size();
    for (size_t rank = 0; rank < at_.size(); ++rank) {
      if (at_[rank] == replay_.items_[rank].size()) continue;
      if (least == at_.size() || now_[rank] < now_[least]) least = rank;
    }
    if (least == at_.size()) return false;
    const auto instance = static_cast<size_t>(replay_.items_[least][at_[least]].instance);
    done_[instance] = std::max(arrival_[instance], now_[least]);
    for (const uint32_t rank : replay_.ranks_of_[instance]) runnable_.push_back(rank);
    runnable_.push_back(static_cast<uint32_t>(least));
    return true;
  }

  // A member arrives; with the last one the call ends, and those behind it arrive in turn.
  void Arrive(size_t first, int64_t when) {
    std::vector<std::pair<size_t, int64_t>> coming = {{first, when}};
    while (!coming.empty()) {
      const auto [instance, time] = coming.back();
      coming.pop_back();
      arrival_[instance] = std::max(arrival_[instance], time);
      if (--missing_[instance] > 0) continue;
      done_[instance] = arrival_[instance] + Scaled(instance, replay_.wire_[instance]);
      for (const uint32_t rank : replay_.ranks_of_[instance]) runnable_.push_back(rank);
      for (const auto& [next, asked] : behind_[instance]) {
        coming.emplace_back(next, std::max(asked, done_[instance]));
      }
    }
  }

  const Replay& replay_;
  const Change& change_;
  std::vector<int64_t> arrival_, done_;
  std::vector<uint32_t> missing_;
  std::vector<std::vector<std::pair<size_t, int64_t>>> behind_;
  std::vector<size_t> at_;
  std::vector<int64_t> now_;
  std::vector<uint32_t> runnable_;
};

double Replay::Run(const Change& change) const { return Runner(*this, change).Run(); }

CriticalPath FindCriticalPath(const Job& job) {
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
  // What this rank did before its first kernel isn't told; something was waited for.
  int64_t first = time;
  for (const RankSummary& summary : job.ranks) {
    if (!summary.segments.empty()) first = std::min(first, summary.segments.front().begin_ns);
  }
  add({rank, first, time, Spent::kDependency});
  std::reverse(path.pieces.begin(), path.pieces.end());
  return path;
}

}  // namespace longhaul::profiler
