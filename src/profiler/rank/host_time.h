// Finds when the device itself delayed the host that launches a rank's work: the host could not
// have launched earlier, at any speed.
#pragma once

#include <cstdint>
#include <vector>

#include "profiler/rank/intervals.h"
#include "profiler/rank/links.h"

namespace longhaul::profiler {

// The time at which the host allowed the device to begin the event; kNotLaunched if no launch is
// known. The host waited for a copy whose call returned after its end: such a copy counts as
// launched when the call began.
int64_t LaunchTime(const DeviceEvent& event);

// Calls of launching threads that wait for the device (cudaStreamSynchronize and similar calls,
// copies that return when they are done). A call during which something was launched is left out:
// another thread continued.
Intervals HostWaits(const RankTrace& trace, const std::vector<DeviceEvent>& device);

}  // namespace longhaul::profiler
