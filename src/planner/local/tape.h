// The memory of the built-in trainer's tensors while it computes: they are allocated and freed one
// after the other, in the pool that its libtorch uses (trainer/model/tensor_pool.h), which keeps a
// block for each tensor of a size.
//
// Follows trainer/model/model.cc and trainer/model/operators.cc operator by operator: the
// allocations of forward, the tensors that autograd saves (arXiv 2205.05198 counts the same for
// two-byte activations and fused kernels; here it is f32, plain attention, no dropout), and the
// allocations and frees of each backward. Leaves out tensors smaller than a row.
#pragma once

#include "base/units.h"
#include "spec/job/job.h"

namespace longhaul::planner {

struct ActivationPeak {
  Bytes live;  // the largest total at one time
  Bytes held;  // held by the pool
};

// Forward and backward of a micro-batch.
ActivationPeak TrainingPeak(const spec::ModelSpec& model, double sequences);
// Forward alone, as in an evaluation: the pool has freed the blocks that training held.
ActivationPeak EvaluationPeak(const spec::ModelSpec& model, double sequences);

}  // namespace longhaul::planner
