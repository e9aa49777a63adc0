#include "profiler/across/replay_program.h"

#include <algorithm>
#include <array>
#include <map>
#include <tuple>

namespace longhaul::profiler {
namespace {

using Kind = ReplayItem::Kind;

constexpr int64_t kBackToBackNs = 5'000;
constexpr int64_t kLeaveNs = 1'000;     // members leave a call within so much of each other
constexpr int64_t kLatencyNs = 30'000;  // from a launch to its begin, at most
constexpr int64_t kSurelyNs = 10'000;   // what was launched so much before could have begun
constexpr double kPasses = 0.05;        // of a kind's calls, that computation passes

// What is known of calls by looking at all of them.
class Calls {
 public:
  // A dimension is hidden if less than half of the time of its calls is exposed.
  explicit Calls(const ProfiledJob& job) : job_(job) {
    std::array<int64_t, kDimensions> whole = {}, exposed = {};
    for (size_t rank = 0; rank < job.ranks.size(); ++rank) {
      const RankSummary& summary = job.ranks[rank];
      for (size_t i = 0; i < summary.collectives.size(); ++i) {
        const Collective& call = summary.collectives[i];
        whole[static_cast<size_t>(job.DimensionOf(rank, i))] += call.end_ns - call.start_ns;
        Passed& passed = passed_[KeyOf(rank, i)];
        ++passed.calls;
        if (call.passed) ++passed.passed;
      }
      for (const Segment& segment : summary.segments) {
        if (segment.collective < 0) continue;
        const Dimension dimension = job.DimensionOf(rank, static_cast<size_t>(segment.collective));
        exposed[static_cast<size_t>(dimension)] += segment.end_ns - segment.begin_ns;
      }
    }
    for (size_t d = 0; d < kDimensions; ++d) hidden_[d] = exposed[d] * 2 < whole[d];
  }

  // Whether its dimension's calls mostly run under computation.
  bool IsHidden(size_t rank, size_t call) const {
    return hidden_[static_cast<size_t>(job_.DimensionOf(rank, call))];
  }
  // Whether computation launched after such calls continues without them.
  bool IsPassed(size_t rank, size_t call) const {
    const Passed& passed = passed_.at(KeyOf(rank, call));
    return static_cast<double>(passed.passed) > kPasses * static_cast<double>(passed.calls);
  }

 private:
  using Key = std::tuple<Dimension, CollectiveKind, Phase>;
  struct Passed {
    uint64_t calls = 0, passed = 0;
  };

  Key KeyOf(size_t rank, size_t call) const {
    const Collective& c = job_.ranks[rank].collectives[call];
    return {job_.DimensionOf(rank, call), c.kind, c.phase};
  }

  const ProfiledJob& job_;
  std::array<bool, kDimensions> hidden_ = {};
  std::map<Key, Passed> passed_;
};

// Writes one rank's program. `now_` follows the items: it is the time in the trace that the program
// has reached, so each delay is the part of the trace's time that earlier items do not explain.
class Programmer {
 public:
  Programmer(const ProfiledJob& job, const Calls& about, size_t rank)
      : job_(job),
        about_(about),
        rank_(rank),
        segments_(job.ranks[rank].segments),
        calls_(job.ranks[rank].collectives) {}

  // The order of the preparations matters: the arrivals need the blocking calls, and the segments
  // need both and the latency.
  ReplayProgram Write() {
    if (segments_.empty()) return std::move(program_);
    program_.begin_ns = now_ = joined_ns_ = segments_.front().begin_ns;
    program_.host = ChainOf(job_.ranks[rank_]);
    launches_known_ = !program_.host.waits.empty();
    FindBlocking();
    FindArrivals();
    FindLatency();
    for (size_t s = 0; s < segments_.size(); ++s) {
      Segment segment = segments_[s];
      const bool waits = Waits(s, &segment);
      if (waits) {
        ArriveUntil(segment.end_ns);
        Wait(static_cast<size_t>(segment.collective), segment.end_ns);
      } else if (launches_known_ && (IsIdle(segment.spent) || segment.spent == Spent::kExposed) &&
                 s < last_work_) {
        // The next item shows after which one it began.
        ArriveUntil(segment.end_ns);
      } else {
        if (launches_known_ && !IsIdle(segment.spent)) Launch(s);
        Work(segment);
      }
    }
    return std::move(program_);
  }

 private:
  // A call in the order in which the rank's work comes to it.
  struct Arrival {
    int64_t place_ns = 0;  // in the rank's time
    size_t call = 0;
    int32_t instance = -1;
    int32_t behind = -1;
  };

  int32_t InstanceOf(size_t call) const { return job_.instance_of[rank_][call]; }

  // The calls for which all later launches wait, in the order of their launches.
  void FindBlocking() {
    for (size_t i = 0; i < calls_.size(); ++i) {
      if (calls_[i].start_ns < program_.begin_ns || calls_[i].launch_ns == kNotLaunched) continue;
      if (InstanceOf(i) < 0 || about_.IsPassed(rank_, i) || WasPosted(i)) continue;
      blocking_.push_back(i);
    }
    std::stable_sort(blocking_.begin(), blocking_.end(), [this](size_t a, size_t b) {
      return calls_[a].launch_ns < calls_[b].launch_ns;
    });
    // The running maximum lets BlockedUntil find the latest end of all calls launched before a time
    // by bisection.
    int64_t until = INT64_MIN;
    for (const size_t call : blocking_) {
      blocked_until_.push_back(until = std::max(until, calls_[call].end_ns));
    }
  }

  // The time until which those delayed the work launched after them.
  int64_t BlockedUntil(int64_t launch_ns) const {
    const auto behind = std::partition_point(blocking_.begin(), blocking_.end(), [&](size_t call) {
      return calls_[call].launch_ns < launch_ns;
    });
    return behind == blocking_.begin()
               ? INT64_MIN
               : blocked_until_[static_cast<size_t>(behind - blocking_.begin()) - 1];
  }

  // A call behind another one on its stream begins when that one ends. So its place in the rank's
  // time is when it was ready, not when it began: with a faster call before it, it would have begun
  // earlier.
  void FindArrivals() {
    std::map<uint32_t, std::pair<size_t, int64_t>> streams;  // last call and its place
    for (size_t i = 0; i < calls_.size(); ++i) {
      const Collective& call = calls_[i];
      if (call.start_ns < program_.begin_ns) continue;
      Arrival arrival = {call.start_ns, i, InstanceOf(i), -1};
      const auto before = streams.find(call.track);
      if (before != streams.end()) {
        const size_t other = before->second.first;
        const bool touches = std::abs(call.start_ns - calls_[other].end_ns) < kBackToBackNs;
        if (touches || launches_known_) arrival.behind = InstanceOf(other);
        if (touches && arrival.behind >= 0) {
          // It waited for its stream: without the call before it would have begun when ready.
          arrival.place_ns = std::clamp(std::max(call.ready_ns, BlockedUntil(call.launch_ns)),
                                        before->second.second, call.start_ns);
        }
      }
      streams[call.track] = {i, arrival.place_ns};
      if (arrival.instance >= 0) arrivals_.push_back(arrival);
    }
    std::stable_sort(arrivals_.begin(), arrivals_.end(),
                     [](const Arrival& a, const Arrival& b) { return a.place_ns < b.place_ns; });
  }

  // Waits for those of them that were launched before, as far as they ended before the place.
  void Block(int64_t launch_ns, int64_t place_ns) {
    size_t kept = next_blocking_;
    size_t i = next_blocking_;
    for (; i < blocking_.size() && calls_[blocking_[i]].launch_ns < launch_ns; ++i) {
      const size_t call = blocking_[i];
      if (calls_[call].end_ns > place_ns + kLeaveNs) {
        blocking_[kept++] = call;
      } else {
        Wait(call, std::min(calls_[call].end_ns, place_ns));
      }
    }
    // Those that are left stand before what follows.
    std::move_backward(blocking_.begin() + static_cast<int64_t>(next_blocking_),
                       blocking_.begin() + static_cast<int64_t>(kept),
                       blocking_.begin() + static_cast<int64_t>(i));
    next_blocking_ = i - (kept - next_blocking_);
  }

  // How long it usually takes from a launch to the begin of what waited for it.
  void FindLatency() {
    std::vector<int64_t> latencies;
    for (size_t s = 0; s < segments_.size(); ++s) {
      if (!IsIdle(segments_[s].spent) && segments_[s].spent != Spent::kExposed) last_work_ = s;
      if (s == 0 || segments_[s - 1].spent != Spent::kHost) continue;
      if (segments_[s].launch_ns == kNotLaunched) continue;
      const int64_t latency = segments_[s].begin_ns - segments_[s].launch_ns;
      if (latency <= kLatencyNs) latencies.push_back(latency);
    }
    if (latencies.empty()) return;
    // The median, and only of work that followed an idle host: other work was launched long before
    // it began.
    const auto middle = latencies.begin() + static_cast<int64_t>(latencies.size() / 2);
    std::nth_element(latencies.begin(), middle, latencies.end());
    latency_ns_ = *middle;
  }

  // Whether the segment is exposed time of a call until its end.
  bool Ends(const Segment& segment) const {
    if (segment.spent != Spent::kExposed || segment.collective < 0) return false;
    const auto call = static_cast<size_t>(segment.collective);
    if (InstanceOf(call) < 0 || calls_[call].start_ns < program_.begin_ns) return false;
    return segment.end_ns + kLeaveNs >= std::min(calls_[call].end_ns, segments_.back().end_ns) &&
           !WasPosted(call);
  }

  // Whether the rank waits for the call of this segment's exposed time. Where launches are known,
  // the next item decides this, see Launch.
  bool Waits(size_t s, Segment* segment) const {
    if (!Ends(*segment)) return false;
    if (launches_known_) return s > last_work_;
    const bool host_next = s + 1 < segments_.size() && segments_[s + 1].spent == Spent::kHost;
    if (!about_.IsHidden(rank_, static_cast<size_t>(segment->collective)) || !host_next) {
      return true;
    }
    // Nothing waited for the call: the host had nothing else ready.
    segment->spent = Spent::kHost;
    return false;
  }

  // Who left before the last one came (a message is posted) did not wait for it.
  bool WasPosted(size_t call) const {
    return calls_[call].end_ns + kLeaveNs <
           job_.instances[static_cast<size_t>(InstanceOf(call))].last_arrival_ns;
  }

  void Wait(size_t call, int64_t until_ns) {
    // A member may leave the call before its end on the other members. This lead is kept, limited
    // to the time on the wire.
    const Instance& instance = job_.instances[static_cast<size_t>(InstanceOf(call))];
    const int64_t lead = instance.end_ns - calls_[call].end_ns;
    program_.items.push_back({.duration_ns = std::clamp<int64_t>(lead, 0, instance.wire_ns()),
                              .instance = InstanceOf(call),
                              .kind = Kind::kWait});
    now_ = std::max(now_, until_ns);
  }

  void ArriveUntil(int64_t until) {
    for (; next_ < arrivals_.size() && arrivals_[next_].place_ns < until; ++next_) {
      Arrive(arrivals_[next_]);
    }
  }

  void Arrive(const Arrival& arrival) {
    ReplayItem item = {
        .instance = arrival.instance, .behind = arrival.behind, .kind = Kind::kArrive};
    if (launches_known_) {
      item.mark = program_.host.Find(calls_[arrival.call].launch_ns);
      HostWaits(item.mark);
      Block(calls_[arrival.call].launch_ns, arrival.place_ns);
      item.duration_ns = DelayAfterLaunch(arrival.place_ns, item.mark, &item.latency_ns);
    }
    program_.items.push_back(item);
  }

  // The rest of the time until `begin_ns` after the previous item and the launch.
  int64_t DelayAfterLaunch(int64_t begin_ns, int32_t mark, int64_t* latency_ns) const {
    // A late launch explains a latency of up to kLatencyNs; otherwise the device was busy, and only
    // the usual latency counts.
    if (mark < 0) return std::max<int64_t>(0, begin_ns - now_);
    const int64_t launch_ns = program_.host.marks[static_cast<size_t>(mark)].time_ns;
    const bool late = launch_ns > now_;
    *latency_ns = std::clamp<int64_t>(begin_ns - launch_ns, 0, late ? kLatencyNs : latency_ns_);
    return std::max<int64_t>(0, begin_ns - std::max(now_, launch_ns + *latency_ns));
  }

  // The waits of the host before a launch.
  void HostWaits(int32_t mark) {
    if (mark < 0) return;
    const int32_t waits = program_.host.marks[static_cast<size_t>(mark)].waits;
    for (; waited_ < waits; ++waited_) {
      const HostChain::Wait& wait = program_.host.waits[static_cast<size_t>(waited_)];
      WaitForCallsOf(wait);
      program_.items.push_back(
          {.duration_ns = std::max<int64_t>(0, now_ - wait.end_ns),
           .latency_ns = std::max<int64_t>(0, wait.end_ns - std::max(wait.begin_ns, now_)),
           .mark = waited_,
           .kind = Kind::kHostWait});
    }
  }

  // A wait may be for a call: for one that ended last of all that the device did by then.
  void WaitForCallsOf(const HostChain::Wait& wait) {
    size_t last = calls_.size();
    for (size_t i = next_call_; i < calls_.size() && calls_[i].start_ns < wait.end_ns; ++i) {
      if (calls_[i].end_ns <= wait.begin_ns) {
        if (i == next_call_) ++next_call_;
        continue;
      }
      if (calls_[i].end_ns > wait.end_ns || calls_[i].end_ns <= now_ || InstanceOf(i) < 0 ||
          calls_[i].start_ns < program_.begin_ns || WasPosted(i)) {
        continue;
      }
      if (last == calls_.size() || calls_[i].end_ns > calls_[last].end_ns) last = i;
    }
    if (last < calls_.size()) Wait(last, calls_[last].end_ns);
  }

  // Before a piece of work: all that it may not begin before.
  void Launch(size_t s) {
    const Segment& segment = segments_[s];
    ArriveUntil(segment.begin_ns + 1);
    const bool joins = segment.phase == Phase::kOptimizer && phase_ != Phase::kOptimizer;
    phase_ = segment.phase;
    const int32_t mark = program_.host.Find(segment.launch_ns);
    HostWaits(mark);
    Block(segment.launch_ns, segment.begin_ns);
    if (joins) Join(segment);
    WaitForTheLast(s);
    ReplayItem item = {.mark = mark, .kind = Kind::kLaunch};
    const int64_t rest = DelayAfterLaunch(segment.begin_ns, mark, &item.latency_ns);
    if (mark >= 0) program_.items.push_back(item);
    if (rest > 0) {
      program_.items.push_back(
          {.begin_ns = segment.begin_ns - rest, .duration_ns = rest, .spent = Spent::kDependency});
    }
    now_ = std::max(now_, segment.begin_ns);
  }

  // For the call that ended right before, if nothing else explains the begin of the work.
  void WaitForTheLast(size_t s) {
    size_t before = s;
    while (before > 0 && segments_[before - 1].spent == Spent::kGap) --before;
    if (before == 0 || !Ends(segments_[before - 1])) return;
    const Segment& exposed = segments_[before - 1];
    if (exposed.end_ns <= now_ + kLeaveNs) return;
    if (segments_[s].launch_ns + kSurelyNs >= exposed.end_ns) return;
    Wait(static_cast<size_t>(exposed.collective), exposed.end_ns);
  }

  // The optimizer begins when the calls of its step that were launched before it are over: of each
  // stream the last.
  void Join(const Segment& segment) {
    std::map<uint32_t, size_t> last;
    const auto first =
        std::lower_bound(calls_.begin(), calls_.end(), joined_ns_,
                         [](const Collective& call, int64_t time) { return call.start_ns < time; });
    for (auto i = static_cast<size_t>(first - calls_.begin());
         i < calls_.size() && calls_[i].start_ns < segment.begin_ns; ++i) {
      const Collective& call = calls_[i];
      if (call.launch_ns > segment.launch_ns) continue;
      if (call.end_ns > segment.begin_ns + kLeaveNs || InstanceOf(i) < 0 || WasPosted(i)) continue;
      last[call.track] = i;
    }
    for (const auto& [track, call] : last)
      Wait(call, std::min(calls_[call].end_ns, segment.begin_ns));
    joined_ns_ = segment.begin_ns;
  }

  // Arrivals inside cut it in two.
  void Work(const Segment& segment) {
    int64_t from = segment.begin_ns;
    const auto add = [&](int64_t until) {
      if (until <= from) return;
      program_.items.push_back(
          {.begin_ns = from, .duration_ns = until - from, .spent = segment.spent});
      from = now_ = until;
    };
    while (next_ < arrivals_.size() && arrivals_[next_].place_ns < segment.end_ns) {
      add(arrivals_[next_].place_ns);
      ArriveUntil(arrivals_[next_].place_ns + 1);
    }
    add(segment.end_ns);
  }

  const ProfiledJob& job_;
  const Calls& about_;
  const size_t rank_;
  const std::vector<Segment>& segments_;
  const std::vector<Collective>& calls_;
  ReplayProgram program_;
  bool launches_known_ = false;  // when the host waited
  int64_t now_ = 0;              // where in the trace the program has come
  int64_t latency_ns_ = 0;       // usual
  size_t last_work_ = 0;         // the last segment that is neither idle nor exposed
  Phase phase_ = Phase::kUnknown;
  int64_t joined_ns_ = 0;
  int32_t waited_ = 0;
  size_t next_ = 0;  // arrival
  size_t next_call_ = 0;
  std::vector<size_t> blocking_;        // calls
  std::vector<int64_t> blocked_until_;  // by those up to each of them
  size_t next_blocking_ = 0;
  std::vector<Arrival> arrivals_;
};

}  // namespace

std::vector<ReplayProgram> ProgramsOf(const ProfiledJob& job) {
  const Calls about(job);
  std::vector<ReplayProgram> programs;
  for (size_t rank = 0; rank < job.ranks.size(); ++rank) {
    programs.push_back(Programmer(job, about, rank).Write());
  }
  return programs;
}

}  // namespace longhaul::profiler
