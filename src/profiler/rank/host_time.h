// When the host that launches a rank's work was held up by the device itself: it could not have
// launched earlier, however fast it was.
#pragma once

#include <cstdint>
#include <vector>

#include "profiler/rank/intervals.h"
#include "profiler/rank/links.h"

namespace longhaul::profiler {

// When the device could begin with the event, as far as its host was concerned; kNotLaunched if no
// launch is told. A copy whose call returned behind its end was waited for by the host: it counts
// as launched when the call began.
int64_t LaunchTime(const DeviceEvent& event);

// Calls of launching threads that wait for the device (cudaStreamSynchronize and its like, copies
// that return when they are done). One within which something was launched is left out: another
// thread continued.
Intervals HostWaits(const RankTrace& trace, const std::vector<DeviceEvent>& device);

}  // namespace longhaul::profiler
