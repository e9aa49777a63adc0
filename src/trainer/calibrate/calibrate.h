// Measures this machine for the planner: `longhaul-trainer --calibrate`.
//
// Standard output gets one JSON object per line: {"done": 12, "total": 90, "what": "matmul 1,024 x
// 128 x 512"} during the measurements, and the device file (planner/local/device_file.h), without
// date and versions, as "device" of the last line. Ends at once when its parent does.
#pragma once

#include <functional>
#include <string>

#include "base/status.h"
#include "planner/local/device_file.h"

namespace longhaul::trainer {

struct CalibrateOptions {
  bool quick = false;
  std::string directory = ".";  // where storage is measured
};

using Progress = std::function<void(size_t done, size_t total, const std::string& what)>;

// Requires PrepareTorch and one thread.
Result<planner::DeviceFile> Calibrate(const CalibrateOptions& options, const Progress& progress);

// Runs the whole mode, for main: returns the exit code.
int RunCalibrate(const CalibrateOptions& options);

}  // namespace longhaul::trainer
