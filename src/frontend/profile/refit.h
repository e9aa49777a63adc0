// Fits the planner's device file to a trace of the built-in trainer, and compares the measured
// times of a trace with the predictions of a device file, as a table.
//
// A sample of an operator is the CPU time of all its spans in a micro-batch and direction, because
// ranks may share cores; a figure is the median of its samples over layers, micro-batches, steps
// and ranks. The figure of an all-reduce is the time on a clock with no other load: the mean CPU
// time of a rank's process (with the transport's thread; work that a message leaves over counts
// with the next), times two for two ranks that exchange (spec/model/exchange.h), times ranks over
// cores where larger groups exceed the cores. With more ranks than cores it also gets its share of
// the cores' time in the steps beyond all operators and calls. A message counts as half of an
// all-reduce of two ranks. The time of a step outside its trace (reports) is the runtime's figure.
// Not covered is what one layout cannot show: other sizes follow from the formulas of
// planner/local/operator_times.h, and the launch times and a worker's memory are the shipped ones.
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

// Returns kInvalidArgument when the traces are not of the built-in trainer or show too little.
Result<planner::DeviceFile> Refit(const profiler::ProfiledJob& job, const RefitFacts& facts);

// One operator of the model: the medians of a micro-batch, by name and direction.
struct MeasuredOperator {
  std::string name;
  planner::FigureKind kind = planner::FigureKind::kMatmul;
  std::array<double, 3> sizes{};
  bool backward = false;
  size_t samples = 0;
  double measured_s = 0;
  double predicted_s = 0;
};

// Sorted by name, then sizes, forward first.
std::vector<MeasuredOperator> AgainstDevice(const profiler::ProfiledJob& job,
                                            const planner::DeviceFile& device);
// The table, and the sums of the layers.
std::string AgainstDeviceText(const profiler::ProfiledJob& job, const planner::DeviceFile& device);

}  // namespace longhaul::frontend
