// One factor for a user's software stack, from at most three measured steps (docs/calibrate.md).
//
// RUNS.csv has a line of column names and one line per measured step. The column `step_seconds` is
// the measurement; the others are keys of the case interface with dots (model.layers,
// layout.tensor, batch.global, cluster.gpu, ...), as docs/planner-cases.md lists them. Cells may be
// quoted as in RFC 4180; an empty cell is a key that is not given. The factor multiplies the device
// time of all kernels and is the one whose mean logarithmic error over the rows is zero. One factor
// is not a model of a cluster, so more than three rows are rejected.
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "planner/case.h"

namespace longhaul::planner {

struct MeasuredStep {
  size_t line = 0;  // of the file, from 1
  Case asked;       // open choices are not decided yet
  double step_s = 0;
};

constexpr size_t kMostMeasuredSteps = 3;
constexpr size_t kLargestRunsFile = 1 << 20;

// Returns kInvalidArgument with "SOURCE:LINE: " before the mistake.
Result<std::vector<MeasuredStep>> ParseRuns(std::string_view csv, std::string_view source);

// A named factor, stored in a file that `plan` reads.
struct StackFactor {
  std::string name;
  double compute_factor = 1;
  uint32_t rows = 0;        // number of rows of the fit
  double error_before = 0;  // root mean square of predicted over measured, minus 1
  double error_after = 0;

  friend bool operator==(const StackFactor&, const StackFactor&) = default;
};

// Seconds of a step with this factor on all kernels. Must not decrease as the factor grows.
using StepWithFactor = std::function<double(const MeasuredStep&, double factor)>;

// Requires 1 to kMostMeasuredSteps rows. kFailedPrecondition when no factor from 0.1 to 10 fits:
// then the case does not describe the measured run.
Result<StackFactor> FitFactor(std::string name, const std::vector<MeasuredStep>& rows,
                              const StepWithFactor& predict);

// {"format": "longhaul-stack", "version": 1, "name", "compute_factor", "rows", "error_before",
//  "error_after"}. kInvalidArgument names the mistake.
Result<StackFactor> ParseStackFile(std::string_view json);
std::string ToJson(const StackFactor& factor);

}  // namespace longhaul::planner
