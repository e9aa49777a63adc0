// How far a measured step may lie from the predicted one.
//
// Half-widths in logarithm by kind of run, from published runs that no constant was fitted to
// (validation/planner, "hold"), chosen so that nine of ten lie inside; wider for every figure that
// was assumed rather than given, for a GPU without tables of its own, for a framework of which
// nothing is known and for more devices than any row has. Leaves out the day's noise (4 % median
// from one day to another on one machine), which is in the residuals, and mistakes in the question.
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
  kSmall,  // hidden sizes to 2,304: launches and memory decide
};

RunKind KindOfRun(const spec::Model& model, const spec::Training& training);

// Of the natural logarithm, to both sides.
double BandWidth(const Question& question, size_t assumed);

StepBand ErrorBand(const Question& question, size_t assumed, Seconds step);

}  // namespace longhaul::planner
