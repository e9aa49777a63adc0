#include "profiler/rank/host_time.h"

#include <algorithm>

namespace longhaul::profiler {
namespace {

bool ReturnsBehindItsEnd(const DeviceEvent& event) { return event.launch_end_ns > event.end_ns; }

}  // namespace

int64_t LaunchTime(const DeviceEvent& event) {
  // What ran on the processor itself was called where it ran.
  if (!event.launched || event.launch_begin_ns >= event.begin_ns) return kNotLaunched;
  if (ReturnsBehindItsEnd(event)) return event.launch_begin_ns;
  return std::min(event.launch_end_ns, event.begin_ns);
}

Intervals HostWaits(const RankTrace& trace, const std::vector<DeviceEvent>& device) {
  std::vector<bool> launches(trace.tracks.size());
  std::vector<int64_t> times;
  Intervals waits;
  for (const DeviceEvent& event : device) {
    const int64_t time = LaunchTime(event);
    if (time == kNotLaunched) continue;
    launches[event.launch_track] = true;
    times.push_back(time);
    if (ReturnsBehindItsEnd(event)) waits.push_back({event.launch_begin_ns, event.launch_end_ns});
  }
  std::vector<int8_t> known(trace.strings.size(), -1);
  const EventTable& events = trace.events;
  for (size_t i = 0; i < events.size(); ++i) {
    const Category category = events.category(i);
    if (category != Category::kRuntime && category != Category::kDriver) continue;
    if (events.duration_ns(i) <= 0 || !launches[events.track(i)]) continue;
    int8_t& waits_for = known[events.name(i)];
    if (waits_for < 0) {
      const std::string_view name = trace.strings[events.name(i)];
      waits_for = name.find("Synchronize") != name.npos ? 1 : 0;
    }
    if (waits_for != 0) waits.push_back({events.start_ns(i), events[i].end_ns()});
  }
  waits = Union(std::move(waits));
  std::sort(times.begin(), times.end());
  std::erase_if(waits, [&times](const Interval& wait) {
    const auto after = std::upper_bound(times.begin(), times.end(), wait.begin);
    return after != times.end() && *after < wait.end;
  });
  return waits;
}

}  // namespace longhaul::profiler
