// The range around the predicted step in which a measured step may lie.
//
// Half-widths in logarithm by kind of run, from published runs to which no constant was fitted
// (validation/planner, "hold"), chosen so that nine of ten lie inside; wider for every assumed
// figure, for a GPU without tables of its own, for an unknown framework and for more devices than
// any row has. Leaves out the variation between days (4 % median on one machine), which is in the
// residuals, and mistakes in the question.
#pragma once

#include <cstddef>

#include "planner/case.h"
#include "planner/evaluation.h"

namespace longhaul::planner {

enum class RunKind {
  kDense,
  kShardedData,  // FSDP: parameters gathered layer by layer
  kLongContext,  // 16,384 tokens and more, or context parallel
  kExperts,
  kSmall,  // hidden sizes to 2,304: dominated by launches and memory
};

RunKind KindOfRun(const spec::Model& model, const spec::Training& training);

// The half-width of the band in the natural logarithm.
double BandWidth(const Question& question, size_t assumed);

StepBand ErrorBand(const Question& question, size_t assumed, Seconds step);

}  // namespace longhaul::planner
