#include "profiler/across/host_chain.h"

#include <algorithm>
#include <cmath>

namespace longhaul::profiler {
namespace {

std::vector<int64_t> LaunchesOf(const RankSummary& rank) {
  std::vector<int64_t> launches;
  for (const Segment& segment : rank.segments) launches.push_back(segment.launch_ns);
  for (const Collective& call : rank.collectives) {
    if (call.start_ns >= rank.segments.front().begin_ns) launches.push_back(call.launch_ns);
  }
  std::erase(launches, kNotLaunched);
  std::sort(launches.begin(), launches.end());
  launches.erase(std::unique(launches.begin(), launches.end()), launches.end());
  return launches;
}

}  // namespace

int32_t HostChain::Find(int64_t launch_ns) const {
  if (launch_ns == kNotLaunched) return -1;
  const auto at =
      std::lower_bound(marks.begin(), marks.end(), launch_ns,
                       [](const Mark& mark, int64_t time) { return mark.time_ns < time; });
  return at == marks.end() || at->time_ns != launch_ns ? -1
                                                       : static_cast<int32_t>(at - marks.begin());
}

int64_t HostChain::work_ns(const std::function<double(int64_t)>& left) const {
  double sum = 0;
  for (const Mark& mark : marks) {
    sum +=
        (left ? left(mark.time_ns) : 1) * static_cast<double>(std::max<int64_t>(mark.work_ns, 0));
  }
  return std::llround(sum);
}

int64_t HostChain::input_ns() const {
  int64_t sum = 0;
  for (const Mark& mark : marks) sum += mark.input_ns;
  return sum;
}

HostChain ChainOf(const RankSummary& rank) {
  HostChain chain;
  if (rank.segments.empty()) return chain;
  const int64_t begin = rank.segments.front().begin_ns;
  for (const Interval& wait : rank.host_waits) {
    if (wait.end > begin) chain.waits.push_back({wait.begin, wait.end, 0});
  }
  if (chain.waits.empty()) return chain;
  const std::vector<int64_t> launches = LaunchesOf(rank);
  int64_t last = begin;
  size_t next_wait = 0, input = 0;
  const auto add = [&](int64_t time) {
    int64_t loading = 0;
    while (input < rank.host_input.size() && rank.host_input[input].end <= last) ++input;
    for (size_t i = input; i < rank.host_input.size() && rank.host_input[i].begin < time; ++i) {
      const Interval& span = rank.host_input[i];
      loading += std::max<int64_t>(0, std::min(span.end, time) - std::max(span.begin, last));
    }
    chain.marks.push_back({time, time - last - loading, loading, static_cast<int32_t>(next_wait)});
    last = time;
  };
  const auto pass_waits = [&](int64_t until) {
    for (; next_wait < chain.waits.size() && chain.waits[next_wait].end_ns <= until; ++next_wait) {
      HostChain::Wait& wait = chain.waits[next_wait];
      wait.mark = static_cast<int32_t>(chain.marks.size());
      add(wait.begin_ns);
      last = wait.end_ns;
    }
  };
  for (const int64_t launch : launches) {
    pass_waits(launch);
    add(launch);
  }
  pass_waits(INT64_MAX);
  return chain;
}

}  // namespace longhaul::profiler
