// How much memory this process has had resident at most.
#pragma once

#include "base/units.h"

namespace longhaul::trainer {

// VmHWM of /proc/self/status: pages of its own, shared libraries, mapped files and shared memory;
// zero where the kernel doesn't tell.
Bytes PeakProcessMemory();

}  // namespace longhaul::trainer
