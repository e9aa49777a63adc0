// Divides a rank's time into segments (rank/summary.h has the rules).
#pragma once

#include <vector>

#include "profiler/rank/links.h"
#include "profiler/rank/summary.h"

namespace longhaul::profiler {

// `device` as LinkDevice returns it; `collective_of` holds for each of them its index among the
// collectives, or -1. The segments tile `window` without gaps or overlaps.
std::vector<Segment> CutSegments(const std::vector<DeviceEvent>& device,
                                 const std::vector<int32_t>& collective_of, const Intervals& input,
                                 Interval window);

}  // namespace longhaul::profiler
