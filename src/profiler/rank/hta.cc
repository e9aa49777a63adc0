#include "profiler/rank/hta.h"

#include <algorithm>
#include <map>
#include <unordered_map>

#include "profiler/rank/intervals.h"
#include "profiler/rank/kernel_classes.h"

namespace longhaul::profiler {
namespace {

constexpr int64_t kKernelWaitLimit = 30;  // "ns" in HTA's documents, microseconds in its code

struct Row {
  int64_t begin = 0;  // microseconds
  int64_t end = 0;
  uint32_t correlation = 0;
  uint32_t name = 0;
  int64_t stream = 0;
};

int64_t Floor(int64_t ns) { return ns >= 0 ? ns / 1000 : -((999 - ns) / 1000); }

// The rows that HTA would keep.
struct Kept {
  std::vector<Row> device;
  std::unordered_map<uint32_t, Row> launches;  // by correlation
};

Kept Keep(const RankTrace& trace) {
  int64_t last_step = INT64_MIN;
  int steps = 0;
  const EventTable& events = trace.events;
  for (size_t i = 0; i < events.size(); ++i) {
    if (events.category(i) != Category::kUserAnnotation) continue;
    if (!trace.strings[events.name(i)].starts_with("ProfilerStep")) continue;
    ++steps;
    last_step = std::max(last_step, events.start_ns(i));
  }
  Kept kept;
  const std::vector<size_t>& streamed = trace.host_rows_with_stream;
  for (size_t i = 0; i < events.size(); ++i) {
    const Event event = events[i];
    if (event.duration_ns < 0) continue;
    Row row = {Floor(event.start_ns), Floor(event.end_ns()), event.correlation, event.name,
               trace.tracks[event.track].tid};
    if (row.begin * 1000 != event.start_ns) ++row.begin;
    // HTA takes whatever has a stream for the device's.
    if (IsDevice(event.category) || std::binary_search(streamed.begin(), streamed.end(), i)) {
      kept.device.push_back(row);
    } else if ((event.category == Category::kRuntime || event.category == Category::kDriver) &&
               event.correlation != 0 && (steps < 2 || event.start_ns < last_step)) {
      kept.launches.emplace(event.correlation, row);
    }
  }
  if (steps >= 2) {
    std::erase_if(kept.device,
                  [&kept](const Row& row) { return !kept.launches.contains(row.correlation); });
  }
  return kept;
}

void Breakdown(const Strings& strings, const Kept& kept, HtaNumbers* numbers) {
  std::array<Intervals, 3> by_class;
  Intervals all;
  for (const Row& row : kept.device) {
    by_class[static_cast<size_t>(HtaClassOf(strings[row.name]))].push_back({row.begin, row.end});
    all.push_back({row.begin, row.end});
  }
  if (all.empty()) return;
  int64_t first = INT64_MAX;
  int64_t last = INT64_MIN;
  for (const Interval& span : all) {
    first = std::min(first, span.begin);
    last = std::max(last, span.end);
  }
  for (Intervals& set : by_class) set = Union(std::move(set));
  numbers->kernel_us = last - first;
  numbers->idle_us = numbers->kernel_us - Length(Union(std::move(all)));
  numbers->compute_us = Length(by_class[0]);
  numbers->non_compute_us = numbers->kernel_us - numbers->compute_us - numbers->idle_us;
  const int64_t communication = Length(by_class[1]);
  if (communication > 0) {
    numbers->overlap_percent = 100.0 *
                               static_cast<double>(Length(Intersection(by_class[0], by_class[1]))) /
                               static_cast<double>(communication);
  }
  // Each set of classes: within those that run, without the others.
  for (size_t bits = 1; bits < 8; ++bits) {
    Intervals set = {{first, last}};
    for (size_t c = 0; c < 3; ++c) {
      set = (bits >> c & 1) != 0 ? Intersection(set, by_class[c]) : Difference(set, by_class[c]);
    }
    numbers->type_us[bits] = Length(set);
  }
}

void Idle(const Kept& kept, HtaNumbers* numbers) {
  std::map<int64_t, std::vector<Row>> streams;
  for (const Row& row : kept.device) streams[row.stream].push_back(row);
  for (auto& [stream, rows] : streams) {
    std::stable_sort(rows.begin(), rows.end(),
                     [](const Row& a, const Row& b) { return a.begin < b.begin; });
    HtaIdle idle = {stream, 0, 0, 0};
    for (size_t i = 1; i < rows.size(); ++i) {
      const int64_t gap = rows[i].begin - rows[i - 1].end;
      const auto launch = kept.launches.find(rows[i].correlation);
      if (launch != kept.launches.end() && launch->second.begin > rows[i - 1].end) {
        idle.host_wait_us += gap;
      } else if (gap < kKernelWaitLimit) {
        idle.kernel_wait_us += gap;
      } else {
        idle.other_us += gap;
      }
    }
    numbers->idle.push_back(idle);
  }
}

// The queue counts the driver's launches too, the launch statistics do not.
bool IsDriverLaunch(std::string_view name) {
  return name == "cuLaunchKernel" || name == "cuLaunchKernelEx";
}

bool IsLaunch(std::string_view name) {
  return name == "cudaLaunchKernel" || name == "cudaLaunchKernelExC" || name == "cudaMemcpyAsync" ||
         name == "cudaMemsetAsync";
}

void Launches(const Strings& strings, const Kept& kept, HtaNumbers* numbers) {
  std::map<int64_t, std::vector<std::pair<int64_t, int>>> changes;
  double delays = 0;
  for (const Row& row : kept.device) {
    const auto launch = kept.launches.find(row.correlation);
    if (launch == kept.launches.end()) continue;
    const std::string_view name = strings[launch->second.name];
    if (IsLaunch(name) || IsDriverLaunch(name)) {
      changes[row.stream].emplace_back(launch->second.begin, 1);
      changes[row.stream].emplace_back(row.begin, -1);
    }
    if (!IsLaunch(name)) continue;
    const int64_t delay = std::max<int64_t>(row.begin - launch->second.end, 0);
    ++numbers->launches;
    delays += static_cast<double>(delay);
    numbers->launch_delay_us_max = std::max(numbers->launch_delay_us_max, delay);
    numbers->launch_cpu_us += launch->second.end - launch->second.begin;
    numbers->launch_gpu_us += row.end - row.begin;
  }
  if (numbers->launches > 0) {
    numbers->launch_delay_us_mean = delays / static_cast<double>(numbers->launches);
  }
  for (auto& [stream, list] : changes) {
    std::stable_sort(list.begin(), list.end(),
                     [](const auto& a, const auto& b) { return a.first < b.first; });
    HtaQueue queue = {stream, list.size(), 0, 0};
    int64_t length = 0;
    for (const auto& [time, change] : list) {
      length += change;
      queue.mean += static_cast<double>(length);
      queue.max = std::max(queue.max, length);
    }
    queue.mean /= static_cast<double>(list.size());
    numbers->queue.push_back(queue);
  }
}

}  // namespace

HtaNumbers AsHta(const RankTrace& trace) {
  HtaNumbers numbers;
  const Kept kept = Keep(trace);
  Breakdown(trace.strings, kept, &numbers);
  Idle(kept, &numbers);
  Launches(trace.strings, kept, &numbers);
  return numbers;
}

}  // namespace longhaul::profiler
