// Brings clocks that differ by whole seconds close to each other, before they are fitted.
//
// Kineto writes the base of its times after the events, so a truncated file has lost it: its rank
// differs by years from its host's ranks. And hosts may count from their boot. A call ends on all
// of its members at about the same time, so ranks whose calls end over a second apart from those of
// their host's other ranks, in the median, get a separate clock; and each clock is set, by the
// median, to one that it shares calls with. AlignClocks handles smaller differences.
#pragma once

#include "profiler/across/profiled_job.h"

namespace longhaul::profiler {

// Shifts the times of ranks. Adds an entry to job->clocks.hosts for ranks that keep a separate
// clock, and changes their host_of. Each host's offset_us is the shift that was subtracted.
void NearClocks(ProfiledJob* job);

// Calls `shift(int64_t* time_ns)` for each point in time of a rank.
template <typename Shift>
void ShiftTimes(RankSummary* rank, Shift shift) {
  for (Step& step : rank->steps) {
    shift(&step.begin_ns);
    shift(&step.end_ns);
  }
  for (Segment& segment : rank->segments) {
    shift(&segment.begin_ns);
    shift(&segment.end_ns);
    if (segment.launch_ns != kNotLaunched) shift(&segment.launch_ns);
  }
  for (Collective& call : rank->collectives) {
    shift(&call.start_ns);
    shift(&call.ready_ns);
    shift(&call.end_ns);
    if (call.launch_ns != kNotLaunched) shift(&call.launch_ns);
  }
  for (Intervals* host : {&rank->host_waits, &rank->host_input}) {
    for (Interval& span : *host) {
      shift(&span.begin);
      shift(&span.end);
    }
  }
  for (ModelOperator& op : rank->model_operators) shift(&op.begin_ns);
}

}  // namespace longhaul::profiler
