// Who launched what: a trace's device events with the host's side of them.
//
// A correlation ties a kernel to the call that launched it; the phase of the step is told by where
// that call stands: inside autograd's evaluation or a "backward" annotation, inside an optimizer's
// step, or else forward. In a trace without any launch (of a processor) whatever ran was called
// where it ran: it counts as launched at its start, by its own thread. In one without any event of
// a device (PyTorch on a processor) the innermost operators are the kernels.
#pragma once

#include <cstdint>
#include <vector>

#include "profiler/rank/intervals.h"
#include "profiler/rank/summary.h"

namespace longhaul::profiler {

struct DeviceEvent {
  int64_t begin_ns = 0;
  int64_t end_ns = 0;
  int64_t launch_begin_ns = 0;  // equal to `begin_ns` when no launch is known
  int64_t launch_end_ns = 0;
  size_t row = 0;
  uint32_t launch_track = 0;
  bool launched = false;
  Phase phase = Phase::kUnknown;
  KernelClass kind = KernelClass::kOther;
};

// By start, then by row.
std::vector<DeviceEvent> LinkDevice(const RankTrace& trace);

// The host's annotations that mark steps, in order of time, as (name, begin, end).
std::vector<Step> HostSteps(const RankTrace& trace, const std::string& prefix);

// When the host waited for data.
Intervals InputTime(const RankTrace& trace);

}  // namespace longhaul::profiler
