// The peak speed of this machine's cores: a 512 x 512 f32 matrix product on one thread.
#pragma once

#include <string>

#include "base/status.h"
#include "base/time.h"
#include "base/units.h"

namespace longhaul::trainer {

// A core of this speed or slower uses the reference BLAS (about 6 GFLOP/s), not OpenBLAS or MKL.
constexpr FlopsPerSecond kSlowestCore{15e9};

// The fastest of several rounds that take `budget` together, by this thread's CPU time, so other
// processes on the core do not count. Requires PrepareTorch.
FlopsPerSecond MeasureCorePeak(Duration budget);

// The cores this process may use.
int UsableCores();

// The error of a core that is too slow, with the remedy for the BLAS of this libtorch: PyPI's holds
// MKL, Debian's loads libblas.so.3.
Status SlowCore(FlopsPerSecond rate, bool has_mkl);

// Measures in one process per core, at the same time. Returns the mean. kFailedPrecondition with
// the remedy when it is below kSlowestCore and LONGHAUL_ALLOW_SLOW_BLAS is not 1.
Result<FlopsPerSecond> MeasureMachine(int cores);

}  // namespace longhaul::trainer
