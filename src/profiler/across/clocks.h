// Puts the clocks of all hosts on that of the first.
//
// Ranks of a host share a clock; hosts differ by an offset and a drift. Symmetric collectives end
// within microseconds of each other on all members, so each that spans hosts observes differences
// of clocks. Offset and drift of each host are fitted to all of them by weighted least squares with
// Huber's weights (1.345 deviations), long collectives counting less. The residual says what may be
// claimed. A drift of more than 1,000 ppm is none of a clock: such a host gets an offset alone.
// Leaves out clocks that jump: one line a host and trace.
#pragma once

#include "profiler/across/profiled_job.h"

namespace longhaul::profiler {

// Shifts the times of the job's ranks and fills in job->clocks.
void AlignClocks(ProfiledJob* job);

}  // namespace longhaul::profiler
