#include "planner/local/cost.h"

#include <algorithm>
#include <cmath>

#include "base/check.h"
#include "planner/local/tape.h"
#include "spec/operators.h"
#include "spec/parameters.h"

namespace longhaul::planner {
namespace {

constexpr int64_t kFloatBytes = 4;
constexpr double kEvaluationSequences = 16;  // trainer/loop.cc evaluates so many at once

// The built-in trainer's slice of the operator list: one rank holds everything, kernels are plain.
spec::LayerSlice SliceOf(uint32_t micro_batch) {
  spec::LayerSlice slice;
  slice.micro_batch = micro_batch;
  slice.vocabulary_multiple = 1;
  return slice;
}

Bytes FloatBytes(double floats) {
  constexpr double kMost = 1e17;
  return Bytes(static_cast<int64_t>(std::min(kMost, kFloatBytes * floats)));
}

FigureKind StreamKind(const spec::Operator& op) {
  switch (op.part) {
    case spec::OperatorPart::kNorm:
      return FigureKind::kNorm;
    case spec::OperatorPart::kFfn:
      return FigureKind::kActivation;
    case spec::OperatorPart::kVocabulary:
      return op.name == "embedding" ? FigureKind::kEmbedding : FigureKind::kLoss;
    default:
      return FigureKind::kResidual;
  }
}

double SecondsOf(const OperatorTimes& times, const spec::Operator& op) {
  switch (op.kind) {
    case spec::OperatorKind::kProduct:
      return op.groups * times.Of(FigureKind::kProduct, {op.m, op.n, op.k}).total();
    case spec::OperatorKind::kAttention:
      return times.Of(FigureKind::kAttention, {op.batch_heads, op.queries, op.head_dim}).total();
    case spec::OperatorKind::kMemoryBound:
      break;
  }
  return times.Of(StreamKind(op), {op.m, op.n, 0}).total();
}

double SecondsOf(const OperatorTimes& times, const spec::OperatorList& list) {
  double seconds = 0;
  for (const spec::Operator& op : list) seconds += SecondsOf(times, op);
  return seconds;
}

}  // namespace

std::string_view LevelName(CalibrationLevel level) {
  switch (level) {
    case CalibrationLevel::kAssumed:
      return "assumed";
    case CalibrationLevel::kPeak:
      return "peak";
    case CalibrationLevel::kCalibrated:
      return "calibrated";
  }
  return "";
}

Status CheckFacts(const MachineFacts& facts) {
  if (facts.cores < 1) return InvalidArgument("a machine has at least one core");
  if (!(facts.memory > Bytes(0))) return InvalidArgument("a machine's memory must be above zero");
  return {};
}

Bytes RankMemory::total() const {
  return weights + gradients + moments + activations + snapshot_slots + data + process;
}

int64_t TrainerParameters(const spec::ModelSpec& model) {
  return spec::Parameters(spec::FromBuiltIn(model)) +
         int64_t{spec::kPreviousTokens} * model.vocabulary * model.hidden;
}

LocalCost::LocalCost(const MachineFacts& facts) : facts_(facts), times_(facts.device.figures) {
  CHECK(CheckFacts(facts).ok());
}

double LocalCost::MicroBatchSeconds(const spec::ModelSpec& model, uint32_t micro_batch) const {
  const spec::Model shape = spec::FromBuiltIn(model);
  const spec::LayerSlice slice = SliceOf(micro_batch);
  return SecondsOf(times_, spec::EmbeddingOperators(shape, slice)) +
         model.layers * SecondsOf(times_, spec::LayerOperators(shape, {}, slice)) +
         SecondsOf(times_, spec::LossOperators(shape, slice));
}

StepTime LocalCost::Step(const spec::ModelSpec& model, uint32_t global_batch, uint32_t ranks,
                         uint32_t micro_batch) const {
  CHECK(ranks >= 1 && micro_batch >= 1);
  const uint64_t sequences_at_once = uint64_t{ranks} * micro_batch;
  CHECK(global_batch >= 1 && global_batch % sequences_at_once == 0);
  const auto micro_batches = static_cast<double>(global_batch / sequences_at_once);
  const auto parameters = static_cast<double>(TrainerParameters(model));
  const double ranks_a_core = (ranks - 1) / facts_.cores + 1;
  StepTime step;
  step.compute = Seconds(ranks_a_core * micro_batches * MicroBatchSeconds(model, micro_batch));
  step.optimizer =
      Seconds(ranks_a_core * times_.Of(FigureKind::kOptimizer, {parameters, 0, 0}).forward_s);
  if (ranks > 1) {
    const std::array<double, 3> sizes = {double(ranks), kFloatBytes * parameters, 0};
    step.all_reduce = Seconds(times_.Of(FigureKind::kAllReduce, sizes).forward_s);
  }
  step.runtime = Seconds(times_.Of(FigureKind::kRuntime, {double(ranks), 0, 0}).forward_s);
  return step;
}

RankMemory LocalCost::Memory(const spec::ModelSpec& model, const spec::TrainSpec& train,
                             uint32_t ranks, uint32_t micro_batch, Bytes data) const {
  CHECK(ranks >= 1 && micro_batch >= 1);
  const Bytes state = FloatBytes(static_cast<double>(TrainerParameters(model)));
  RankMemory memory;
  memory.weights = state;
  memory.gradients = state;
  memory.moments = 2 * state;
  const double evaluated =
      std::min(kEvaluationSequences, std::ceil(double(train.evaluate_sequences) / ranks));
  memory.activations = TrainingPeak(model, micro_batch).held;
  if (evaluated > 0) {
    memory.activations = std::max(memory.activations, EvaluationPeak(model, evaluated).held);
  }
  memory.snapshot_slots = 2 * (memory.weights + memory.moments);
  memory.data = data;
  memory.process = facts_.device.process_memory;
  return memory;
}

}  // namespace longhaul::planner
