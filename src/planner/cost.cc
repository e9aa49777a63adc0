#include "planner/cost.h"

#include "base/check.h"
#include "spec/parameters.h"

namespace longhaul::planner {

namespace {

using namespace longhaul::literals;

// The head of cost.h says where these come from.
constexpr double kPeakShare = 0.55;
constexpr double kHalfRows = 48;
constexpr Seconds kLaunchPerLayer(1.25e-3);
constexpr double kOptimizerBytesPerParameter = 28;  // reads p, g, m, v and writes p, m, v
constexpr BytesPerSecond kOptimizerRate = 10_GBps;
constexpr Bytes kProcess = 88_MiB;  // a process that has loaded libtorch, measured
constexpr int64_t kFloatBytes = 4;

int64_t Parameters(const spec::ModelSpec& model) {
  return spec::Parameters(spec::FromBuiltIn(model));
}

}  // namespace

Status CheckFacts(const MachineFacts& facts) {
  if (facts.cores < 1) return InvalidArgument("a machine has at least one core");
  // Negations refuse a NaN too.
  if (!(facts.memory > Bytes(0))) return InvalidArgument("a machine's memory must be above zero");
  if (!(facts.flops_per_core > FlopsPerSecond(0))) {
    return InvalidArgument("a core's speed must be above zero: " + ToString(facts.flops_per_core));
  }
  if (!(facts.reduce_latency >= Seconds(0)) || !(facts.reduce_bandwidth > BytesPerSecond(0))) {
    return InvalidArgument(
        "an all-reduce needs a latency of zero or more and a bandwidth above it");
  }
  return {};
}

Bytes RankMemory::total() const {
  return weights + gradients + moments + activations + buffers + snapshot_arena + process;
}

Seconds RingAllReduce(Bytes buffer, uint32_t ranks, const MachineFacts& facts) {
  CHECK(ranks >= 1);
  // Reduce-scatter and all-gather: each ranks - 1 steps, each step moves one ranks-th.
  const double steps = 2.0 * (ranks - 1);
  return steps * (facts.reduce_latency + (1.0 / ranks) * (buffer / facts.reduce_bandwidth));
}

StepTime PredictStep(const spec::ModelSpec& model, uint32_t global_batch, uint32_t ranks,
                     uint32_t micro_batch, const MachineFacts& facts) {
  CHECK(ranks >= 1 && micro_batch >= 1);
  const uint64_t sequences_at_once = uint64_t{ranks} * micro_batch;
  CHECK(global_batch >= 1 && global_batch % sequences_at_once == 0);
  const double micro_batches = static_cast<double>(global_batch / sequences_at_once);
  const double rows = static_cast<double>(micro_batch) * model.sequence;
  const FlopsPerSecond rate = facts.flops_per_core * (kPeakShare * rows / (rows + kHalfRows));
  const Seconds products = spec::ModelStepFlops(spec::FromBuiltIn(model), micro_batch) / rate;
  const Seconds launches = static_cast<double>(model.layers) * kLaunchPerLayer;
  const double parameters = static_cast<double>(Parameters(model));
  const Seconds optimizer(parameters * kOptimizerBytesPerParameter / kOptimizerRate.count());
  const uint32_t ranks_a_core = (ranks - 1) / facts.cores + 1;
  const Bytes gradients(Parameters(model) * kFloatBytes);
  return {static_cast<double>(ranks_a_core) * (micro_batches * (products + launches) + optimizer),
          RingAllReduce(gradients, ranks, facts)};
}

RankMemory PredictMemory(const spec::ModelSpec& model, uint32_t ranks, uint32_t micro_batch) {
  CHECK(ranks >= 1 && micro_batch >= 1);
  const Bytes state(Parameters(model) * kFloatBytes);
  // As doubles: the largest model and micro-batch that a job may ask for pass 2^63 bytes.
  const double rows = static_cast<double>(micro_batch) * model.sequence;
  const double scores = 2.0 * model.heads * model.sequence;
  const double layers = static_cast<double>(model.layers) * (16.0 * model.hidden + scores);
  const double logits = 3.0 * model.vocabulary;  // with their softmax and gradient
  const double activations = static_cast<double>(kFloatBytes) * rows * (layers + logits);
  constexpr double kMost = 1e18;  // more than any machine, and sums of it stay in 64 bits
  RankMemory memory;
  memory.weights = state;
  memory.gradients = state;
  memory.moments = 2 * state;
  memory.activations = Bytes(static_cast<int64_t>(activations < kMost ? activations : kMost));
  memory.buffers = ranks > 1 ? state : Bytes(0);
  memory.snapshot_arena = 2 * (memory.weights + memory.moments);
  memory.process = kProcess;
  return memory;
}

}  // namespace longhaul::planner
