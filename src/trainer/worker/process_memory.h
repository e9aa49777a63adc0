// The peak resident memory of this process.
#pragma once

#include "base/units.h"

namespace longhaul::trainer {

// VmHWM of /proc/self/status: private pages, shared libraries, mapped files and shared memory; zero
// where the kernel does not report it.
Bytes PeakProcessMemory();

}  // namespace longhaul::trainer
