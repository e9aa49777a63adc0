#include "planner/memory/state_bytes.h"

#include "planner/time/software_stack.h"

namespace longhaul::planner {

namespace {

// Of the master copy of a two-byte weight. Apex keeps the bits that the weight lacks, and none
// where its moments are in two bytes as well; it knew no expert parallelism.
double MasterBytes(const spec::Training& training) {
  if (training.layout.expert > 1 || !UsesApexOptimizer(training.software)) return 4;
  return training.software.moment_bytes < 4 ? 0 : 2;
}

}  // namespace

StateBytes StateBytesOf(const spec::Training& training, Family family) {
  const spec::Software& software = training.software;
  const double moments = 2.0 * software.moment_bytes;
  StateBytes bytes;
  if (training.precision == spec::Precision::kFp32 || family == Family::kLonghaul) {
    return {4, 4, moments, 0};
  }
  bytes.gradients = software.gradient_bytes;
  bytes.optimizer = MasterBytes(training) + moments;
  if (family == Family::kShardedData) {
    // Two-byte gradients and moments: the whole of training is in two bytes, without a master.
    const bool two_bytes = software.gradient_bytes < 4 && software.moment_bytes < 4;
    return {two_bytes ? 2.0 : 4.0, bytes.gradients, moments, 0};
  }
  // Two-byte sums become fp32 gradients of the master weights for the step.
  if (software.gradient_bytes < 4) bytes.step = 4;
  // DeepSpeed's bf16 optimizer sums in fp32 beside the two-byte gradients.
  if (family == Family::kDeepSpeed && software.gradient_bytes >= 4) bytes.gradients += 2;
  // MXFP8 keeps row and column copies with a scale for 32 elements in place of two-byte weights;
  // per-tensor fp8 a copy and its transpose, the same two bytes; NVFP4 two-byte weights and both
  // four-bit copies with a scale for 16.
  if (family == Family::kMegatron) {
    if (training.precision == spec::Precision::kMxfp8) bytes.weights = 2.0 + 2.0 / 32;
    if (training.precision == spec::Precision::kNvfp4) bytes.weights = 2 + 2 * (0.5 + 1.0 / 16);
  }
  return bytes;
}

}  // namespace longhaul::planner
