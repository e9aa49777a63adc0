// Aligns the clocks of all hosts to that of the first.
//
// Ranks of a host share a clock; hosts differ by an offset and a drift. Symmetric collectives end
// within microseconds of each other on all members, so each that spans hosts observes differences
// of clocks. Offset and drift of each host are fitted to all of them by weighted least squares with
// Huber's weights (1.345 deviations); long collectives count less. The residual limits the
// precision of results. A drift of more than 1,000 ppm is not one of a clock: such a host gets only
// an offset. Leaves out clocks that jump: there is one line per host and trace.
#pragma once

#include "profiler/across/profiled_job.h"

namespace longhaul::profiler {

// Shifts the times of the job's ranks and fills in job->clocks.
void AlignClocks(ProfiledJob* job);

}  // namespace longhaul::profiler
