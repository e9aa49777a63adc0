// From a trace of the built-in trainer to what the planner knows of a machine, and back: a device
// file fitted to the trace, and a table of what was measured against what a device file says.
//
// An operator's sample is the CPU time of all its spans in a micro-batch and direction, since ranks
// may share cores; a figure is the median of its samples over layers, micro-batches, steps and
// ranks. A sum's figure is by the clock of its ranks alone: the mean (what leaves behind one
// message is counted with the next) CPU time of a rank's process (the transport's thread included),
// times two for two that exchange (spec/model/exchange.h), times ranks over cores where there
// are more of them for others, and with its share of what the steps took of the cores beyond all
// operators and calls, where there are more ranks than cores. A message goes in as half of a sum of
// two, which it is. What a step takes beside its trace (reports) is the runtime's figure. Leaves
// out what one layout can't show: other sizes are told by the formulas of
// planner/local/operator_times.h, and launches and a worker's memory are those shipped.
#pragma once

#include <string>
#include <vector>

#include "base/status.h"
#include "base/units.h"
#include "planner/local/device_file.h"
#include "profiler/across/profiled_job.h"

namespace longhaul::frontend {

struct RefitFacts {
  std::string measured_at;
  std::string version;
  Bytes memory;  // of the machine
};

// kInvalidArgument when the traces are not of the built-in trainer or show too little.
Result<planner::DeviceFile> Refit(const profiler::ProfiledJob& job, const RefitFacts& facts);

// One operator of the model: medians of a micro-batch, by name and direction.
struct MeasuredOperator {
  std::string name;
  planner::FigureKind kind = planner::FigureKind::kMatmul;
  std::array<double, 3> sizes{};
  bool backward = false;
  size_t samples = 0;
  double measured_s = 0;
  double predicted_s = 0;
};

// By name, then sizes, forward first.
std::vector<MeasuredOperator> AgainstDevice(const profiler::ProfiledJob& job,
                                            const planner::DeviceFile& device);
// The table, and the layers' sums.
std::string AgainstDeviceText(const profiler::ProfiledJob& job, const planner::DeviceFile& device);

}  // namespace longhaul::frontend
