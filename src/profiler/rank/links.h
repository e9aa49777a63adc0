// Joins a trace's device events with the host's calls that launched them.
//
// A correlation connects a kernel with the call that launched it; the phase of the step follows
// from the place of that call: inside autograd's evaluation or a "backward" annotation, inside an
// optimizer's step, or else forward. In a trace without any launch (of a processor) each event was
// called where it ran: it counts as launched at its start, by its own thread.
//
// In a trace without any event of a device (PyTorch on a processor) the operators are the kernels,
// by self time: an operator has its time without that of the operators inside it, as
// torch.profiler's "Self CPU" counts it. An operator whose name has no class, or that computes
// nothing itself (a view, an allocation), has the class of the nearest operator around it that has
// one. Without such an operator an unknown name is other compute, and a view is the host's
// overhead: it is left out, so its time is idle because of the host.
#pragma once

#include <cstdint>
#include <vector>

#include "profiler/rank/intervals.h"
#include "profiler/rank/kernel_table.h"
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
  bool continued = false;  // a further piece of an operator's self time
  Phase phase = Phase::kUnknown;
  KernelClass kind = KernelClass::kOther;
};

// Sorted by start, then by row.
std::vector<DeviceEvent> LinkDevice(const RankTrace& trace, KernelNames& names);

// The host's annotations that mark steps, in order of time, as (name, begin, end).
std::vector<Step> HostSteps(const RankTrace& trace, const std::string& prefix);

// The times during which the host waited for data.
Intervals InputTime(const RankTrace& trace);

}  // namespace longhaul::profiler
