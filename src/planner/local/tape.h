// What the built-in trainer's tensors take while it computes: allocated and given back one after
// the other, in the pool that its libtorch uses (trainer/model/tensor_pool.h), which keeps a block
// for each tensor of a size.
//
// Follows trainer/model/model.cc and trainer/model/operators.cc operator by operator: what forward
// allocates, what autograd saves of it (arXiv 2205.05198 counts the same for two-byte activations
// and fused kernels; here it is f32, plain attention, no dropout), what each backward allocates and
// gives back. Leaves out what is smaller than a row.
#pragma once

#include "base/units.h"
#include "spec/job/job.h"

namespace longhaul::planner {

struct ActivationPeak {
  Bytes live;  // at once, at most
  Bytes held;  // by the pool
};

// Forward and backward of a micro-batch.
ActivationPeak TrainingPeak(const spec::ModelSpec& model, double sequences);
// Forward alone, as in an evaluation: the pool has given back what training held.
ActivationPeak EvaluationPeak(const spec::ModelSpec& model, double sequences);

}  // namespace longhaul::planner
