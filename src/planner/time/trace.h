// A predicted step as a Chrome trace, to open beside a real one (chrome://tracing, Perfetto).
//
// The JSON object of "Trace Event Format" (Google, 2016) with the additional keys of PyTorch's
// traces, so that `longhaul profile` reads it: one complete event ("X") of category kernel for each
// task, a thread for each pipeline rank, times in microseconds; after the pipeline the exposed
// gradient traffic and the optimizer; one annotation around the step. Stages and schedule are those
// of time/simulate.h, so ranks wait where the real ones would. Of long steps only the first
// micro-batches are shown, and the name of the process states this. Leaves out single operators.
#pragma once

#include <string>

#include "planner/evaluation.h"

namespace longhaul::planner {

// Requires an evaluation of `training` by Evaluator::Evaluate.
std::string ChromeTrace(const spec::Training& training, const Evaluation& evaluation);

}  // namespace longhaul::planner
