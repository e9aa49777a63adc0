#include "profiler/rank/hta.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <optional>
#include <unordered_map>

#include "base/check.h"
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
  std::optional<int64_t> launched;  // of the device's: what HTA takes for its launch's begin
};

// Rounds towards minus infinity; integer division alone would round negative times up.
int64_t Floor(int64_t ns) { return ns >= 0 ? ns / 1000 : -((999 - ns) / 1000); }
int64_t Ceiling(int64_t ns) { return Floor(ns) + (Floor(ns) * 1000 != ns ? 1 : 0); }

// The rows that HTA would keep.
struct Kept {
  std::vector<Row> device;
  std::unordered_map<uint32_t, Row> launches;  // by correlation
};

// Where steps are marked, HTA leaves out what the host began at the last one's begin or later.
struct Steps {
  int count = 0;
  int64_t last = INT64_MIN;

  bool filter() const { return count >= 2; }
  bool Keeps(int64_t begin) const { return !filter() || begin < last; }
};

Steps StepsOf(const RankTrace& trace) {
  Steps steps;
  const EventTable& events = trace.events;
  for (size_t i = 0; i < events.size(); ++i) {
    if (events.category(i) != Category::kUserAnnotation) continue;
    if (!trace.strings[events.name(i)].starts_with("ProfilerStep")) continue;
    ++steps.count;
    steps.last = std::max(steps.last, Ceiling(events.start_ns(i)));
  }
  return steps;
}

bool IsLaunchCategory(Category category) {
  return category == Category::kRuntime || category == Category::kDriver;
}

// HTA's table behind its filter: the device's rows whose launch was kept, once for each, then the
// host's. A link holds the launch's place in the file, and is used as a row's number here.
class FilteredTable {
 public:
  FilteredTable(const RankTrace& trace, const Steps& steps) {
    CHECK(trace.places.size() == trace.events.size());
    const EventTable& events = trace.events;
    std::unordered_map<uint32_t, size_t> launches;  // kept ones of a correlation
    std::vector<int64_t> host;
    for (size_t i = 0; i < events.size(); ++i) {
      const Event event = events[i];
      if (event.duration_ns < 0 || event.category == Category::kTrace) continue;
      if (IsDevice(event.category)) continue;
      const int64_t begin = Ceiling(event.start_ns);
      if (event.correlation != 0) link_[event.correlation] = trace.places[i];
      if (!steps.Keeps(begin)) continue;
      host.push_back(begin);
      if (event.correlation != 0) ++launches[event.correlation];
    }
    for (size_t i = 0; i < events.size(); ++i) {
      if (!IsDevice(events.category(i)) || events.duration_ns(i) < 0) continue;
      const auto found = launches.find(events[i].correlation);
      if (found == launches.end()) continue;
      begins_.insert(begins_.end(), found->second, Ceiling(events.start_ns(i)));
    }
    begins_.insert(begins_.end(), host.begin(), host.end());
  }

  std::optional<int64_t> Launched(uint32_t correlation) const {
    const auto link = link_.find(correlation);
    if (link == link_.end() || link->second >= begins_.size()) return std::nullopt;
    return begins_[link->second];
  }

 private:
  std::unordered_map<uint32_t, uint64_t> link_;
  std::vector<int64_t> begins_;
};

Kept Keep(const RankTrace& trace, HtaRows rows) {
  const EventTable& events = trace.events;
  const Steps steps = StepsOf(trace);
  Kept kept;
  const std::vector<size_t>& streamed = trace.host_rows_with_stream;
  for (size_t i = 0; i < events.size(); ++i) {
    const Event event = events[i];
    if (event.duration_ns < 0) continue;
    Row row = {Ceiling(event.start_ns),       Floor(event.end_ns()), event.correlation, event.name,
               trace.tracks[event.track].tid, std::nullopt};
    // HTA takes whatever has a stream for the device's.
    if (IsDevice(event.category) || std::binary_search(streamed.begin(), streamed.end(), i)) {
      kept.device.push_back(row);
    } else if (IsLaunchCategory(event.category) && event.correlation != 0 &&
               steps.Keeps(row.begin)) {
      kept.launches.emplace(event.correlation, row);
    }
  }
  if (steps.filter()) {
    std::erase_if(kept.device,
                  [&kept](const Row& row) { return !kept.launches.contains(row.correlation); });
  }
  if (rows == HtaRows::kFiltered && steps.filter()) {
    const FilteredTable table(trace, steps);
    for (Row& row : kept.device) row.launched = table.Launched(row.correlation);
    return kept;
  }
  for (Row& row : kept.device) {
    const auto launch = kept.launches.find(row.correlation);
    if (launch != kept.launches.end()) row.launched = launch->second.begin;
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
      if (rows[i].launched.has_value() && *rows[i].launched > rows[i - 1].end) {
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

struct QueueChange {
  int64_t time = 0;
  int change = 0;
};

// Of changes in order.
HtaLengths LengthsOf(const std::vector<QueueChange>& changes) {
  std::vector<int64_t> lengths;
  int64_t length = 0;
  double sum = 0;
  for (const QueueChange& change : changes) {
    lengths.push_back(length += change.change);
    sum += static_cast<double>(length);
  }
  HtaLengths result;
  const auto count = static_cast<double>(lengths.size());
  result.mean = sum / count;
  double squares = 0;
  for (const int64_t l : lengths) squares += std::pow(static_cast<double>(l) - result.mean, 2);
  result.deviation = lengths.size() > 1 ? std::sqrt(squares / (count - 1)) : 0;
  std::sort(lengths.begin(), lengths.end());
  result.min = lengths.front();
  result.max = lengths.back();
  // Linear interpolation between neighbours.
  for (size_t quarter = 1; quarter <= 3; ++quarter) {
    const double place = static_cast<double>(quarter) / 4 * (count - 1);
    const auto below = static_cast<size_t>(place);
    const auto low = static_cast<double>(lengths[below]);
    const auto high = static_cast<double>(lengths[std::min(below + 1, lengths.size() - 1)]);
    result.quartiles[quarter - 1] = low + (high - low) * (place - std::floor(place));
  }
  return result;
}

// Both orders of equal times are computed, because HTA's own order depends on the version of its
// libraries (see the header).
HtaQueue QueueOf(int64_t stream, std::vector<QueueChange> changes) {
  HtaQueue queue;
  queue.stream = stream;
  queue.count = changes.size();
  const auto sort = [&changes](int first) {
    std::sort(changes.begin(), changes.end(), [first](const QueueChange& a, const QueueChange& b) {
      return a.time != b.time ? a.time < b.time : a.change * first > b.change * first;
    });
  };
  sort(1);
  queue.launch_first = LengthsOf(changes);
  sort(-1);
  queue.kernel_first = LengthsOf(changes);
  return queue;
}

void Launches(const Strings& strings, const Kept& kept, HtaNumbers* numbers) {
  std::map<int64_t, std::vector<QueueChange>> changes;
  double delays = 0;
  for (const Row& row : kept.device) {
    const auto launch = kept.launches.find(row.correlation);
    if (launch == kept.launches.end()) continue;
    const std::string_view name = strings[launch->second.name];
    if (IsLaunch(name) || IsDriverLaunch(name)) {
      changes[row.stream].push_back({launch->second.begin, 1});
      changes[row.stream].push_back({row.begin, -1});
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
  for (auto& [stream, list] : changes) numbers->queue.push_back(QueueOf(stream, std::move(list)));
}

}  // namespace

HtaNumbers AsHta(const RankTrace& trace, HtaRows rows) {
  HtaNumbers numbers;
  const Kept kept = Keep(trace, rows);
  Breakdown(trace.strings, kept, &numbers);
  Idle(kept, &numbers);
  Launches(trace.strings, kept, &numbers);
  return numbers;
}

}  // namespace longhaul::profiler
