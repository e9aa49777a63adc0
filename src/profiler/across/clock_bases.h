// Brings clocks that are whole seconds apart near each other, before they are fitted.
//
// Kineto writes the time that its times count from behind the events, so a file that was cut has
// lost it: its rank is years from the ranks of its own host. And hosts may count from their boot.
// A call ends on all of its members at about the same time, so ranks that end their calls over a
// second from their host's others, in the median, get a clock of their own; and each clock is put
// on one that it shares calls with, by the median. What differs by less is left to AlignClocks.
#pragma once

#include "profiler/across/profiled_job.h"

namespace longhaul::profiler {

// Shifts the times of ranks. Adds an entry to job->clocks.hosts for ranks that keep a clock of
// their own, and changes their host_of. Each host's offset_us says what was taken off.
void NearClocks(ProfiledJob* job);

// `shift(int64_t* time_ns)` for each point in time of a rank.
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
