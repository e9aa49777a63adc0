// A predicted step as a Chrome trace, to open beside a real one (chrome://tracing, Perfetto).
//
// The JSON object of "Trace Event Format" (Google, 2016) with the keys that PyTorch's traces have
// besides, so that `longhaul profile` reads it: one complete event ("X") of category kernel a task,
// a thread a pipeline rank, times in microseconds; after the pipeline the gradient traffic that
// nothing hides and the optimizer; one annotation around the step. Stages and schedule are those of
// time/simulate.h, so ranks wait where the real ones would. Long steps show their first
// micro-batches only, and say so in the name of the process. Leaves out single operators.
#pragma once

#include <string>

#include "planner/evaluation.h"

namespace longhaul::planner {

// Requires an evaluation of `training` by Evaluator::Evaluate.
std::string ChromeTrace(const spec::Training& training, const Evaluation& evaluation);

}  // namespace longhaul::planner
