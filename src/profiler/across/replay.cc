#include "profiler/across/replay.h"

#include <algorithm>
#include <cmath>

namespace longhaul::profiler {
namespace {

using Kind = ReplayItem::Kind;

constexpr int64_t kNever = INT64_MIN;

}  // namespace

Replay::Replay(const ProfiledJob& job)
    : programs_(ProgramsOf(job)),
      wire_(job.instances.size()),
      members_(job.instances.size()),
      ranks_of_(job.instances.size()) {
  for (size_t i = 0; i < job.instances.size(); ++i) wire_[i] = job.instances[i].wire_ns();
  for (size_t rank = 0; rank < programs_.size(); ++rank) {
    for (const ReplayItem& item : programs_[rank].items) {
      if (item.kind != Kind::kArrive) continue;
      ++members_[static_cast<size_t>(item.instance)];
      ranks_of_[static_cast<size_t>(item.instance)].push_back(static_cast<uint32_t>(rank));
    }
  }
}

// The state of one run.
class Replay::Runner {
 public:
  // The state of a run: for each instance the last arrival so far, its end and the number of
  // members that are missing, and for each rank the next item and the time.
  Runner(const Replay& replay, const Change& change)
      : replay_(replay),
        change_(change),
        arrival_(replay.wire_.size(), kNever),
        done_(replay.wire_.size(), kNever),
        missing_(replay.members_),
        behind_(replay.wire_.size()),
        at_(replay.programs_.size()),
        launches_(replay.programs_.size()),
        waited_(replay.programs_.size()) {
    for (size_t rank = 0; rank < replay.programs_.size(); ++rank) {
      now_.push_back(replay.programs_[rank].begin_ns);
      TimeLaunches(rank);
    }
  }

  // A rank advances until a call is not over, and is runnable again when that call ends. Times
  // depend only on maxima of arrivals, so the order in which ranks are taken does not change the
  // result. Linear in the items, apart from repeated attempts of ranks of the same instance.
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
      if (Items(rank).empty()) continue;
      first = std::min(first, replay_.programs_[rank].begin_ns);
      last = std::max(last, now_[rank]);
    }
    return first > last ? 0 : static_cast<double>(last - first) * 1e-9;
  }

 private:
  const std::vector<ReplayItem>& Items(size_t rank) const { return replay_.programs_[rank].items; }

  double Work(size_t rank, Spent spent) const {
    return change_.work ? change_.work(rank, spent) : 1;
  }
  double Moment(size_t rank, int64_t begin_ns) const {
    return change_.moment ? change_.moment(rank, begin_ns) : 1;
  }
  static int64_t Times(double factor, int64_t ns) {
    return std::llround(factor * static_cast<double>(ns));
  }

  // For each launch, the time since the host's last wait for the device.
  void TimeLaunches(size_t rank) {
    const HostChain& host = replay_.programs_[rank].host;
    const int64_t begin_ns = replay_.programs_[rank].begin_ns;
    const double work = Work(rank, Spent::kHost);
    const double input = Work(rank, Spent::kInput);
    waited_[rank].assign(host.waits.size(), begin_ns);
    int64_t since = 0;
    int32_t waits = 0;
    for (const HostChain::Mark& mark : host.marks) {
      if (mark.waits != waits) since = 0;
      waits = mark.waits;
      // What was launched before the rank's begin stays.
      const double factor = mark.time_ns > begin_ns ? work * Moment(rank, mark.time_ns) : 1;
      since += Times(factor, mark.work_ns) + Times(input, mark.input_ns);
      launches_[rank].push_back(since);
    }
  }

  // When the host is at a mark of its chain.
  int64_t Host(size_t rank, int32_t mark) const {
    const auto i = static_cast<size_t>(mark);
    const int32_t waits = replay_.programs_[rank].host.marks[i].waits;
    return launches_[rank][i] + (waits == 0 ? replay_.programs_[rank].begin_ns
                                            : waited_[rank][static_cast<size_t>(waits) - 1]);
  }

  // Until the rank must wait.
  void Advance(uint32_t rank) {
    const std::vector<ReplayItem>& items = Items(rank);
    for (; at_[rank] < items.size(); ++at_[rank]) {
      const ReplayItem& item = items[at_[rank]];
      const auto instance = static_cast<size_t>(std::max(item.instance, 0));
      switch (item.kind) {
        case Kind::kWork:
          now_[rank] +=
              Times(Work(rank, item.spent) * Moment(rank, item.begin_ns), item.duration_ns);
          break;
        case Kind::kLaunch:
          now_[rank] = std::max(now_[rank], Host(rank, item.mark) + item.latency_ns);
          break;
        case Kind::kHostWait:
          AwaitDevice(rank, item);
          break;
        case Kind::kWait:
          if (done_[instance] == kNever) return;
          now_[rank] = std::max(now_[rank], done_[instance] - Scaled(instance, item.duration_ns));
          break;
        case Kind::kArrive:
          Come(rank, item);
          break;
      }
    }
  }

  // The host continues when it has reached the wait and the device has reached the recorded point,
  // whichever is later.
  void AwaitDevice(size_t rank, const ReplayItem& item) {
    const auto wait = static_cast<size_t>(item.mark);
    const int64_t asked = Host(rank, replay_.programs_[rank].host.waits[wait].mark);
    waited_[rank][wait] = std::max(asked, now_[rank] - item.duration_ns) + item.latency_ns;
  }

  // An arrival behind another call on the same stream is postponed until that call ends. It does
  // not stop the rank, which only queues the call.
  void Come(size_t rank, const ReplayItem& item) {
    int64_t when = now_[rank];
    if (item.mark >= 0) when = std::max(when, Host(rank, item.mark) + item.latency_ns);
    when += item.duration_ns;
    const auto instance = static_cast<size_t>(item.instance);
    const auto behind = static_cast<size_t>(std::max(item.behind, 0));
    if (item.behind >= 0 && done_[behind] == kNever && missing_[behind] > 0) {
      behind_[behind].emplace_back(instance, when);
    } else {
      Arrive(instance, item.behind >= 0 ? std::max(when, done_[behind]) : when);
    }
  }

  int64_t Scaled(size_t instance, int64_t wire_ns) const {
    return Times(change_.wire ? change_.wire(instance) : 1, wire_ns);
  }

  // Ranks that wait for each other in a ring (a trace whose calls were matched wrongly): the one
  // that has come least far continues without those missing.
  bool Unlock() {
    size_t least = at_.size();
    for (size_t rank = 0; rank < at_.size(); ++rank) {
      if (at_[rank] == Items(rank).size()) continue;
      if (least == at_.size() || now_[rank] < now_[least]) least = rank;
    }
    if (least == at_.size()) return false;
    const auto instance = static_cast<size_t>(Items(least)[at_[least]].instance);
    // Some progress is made in each call, so the replay ends for every trace.
    done_[instance] = std::max(arrival_[instance], now_[least]);
    for (const uint32_t rank : replay_.ranks_of_[instance]) runnable_.push_back(rank);
    runnable_.push_back(static_cast<uint32_t>(least));
    return true;
  }

  // A member arrives; with the last one the call ends, and the calls after it arrive in turn.
  void Arrive(size_t first, int64_t when) {
    // A list instead of recursion: a long chain of calls on one stream would exhaust the stack.
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
  // For each rank: its launches after the host's last wait, and the end of each wait.
  std::vector<std::vector<int64_t>> launches_, waited_;
  std::vector<uint32_t> runnable_;
};

double Replay::Run(const Change& change) const { return Runner(*this, change).Run(); }

}  // namespace longhaul::profiler
