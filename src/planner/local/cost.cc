#include "planner/local/cost.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "base/check.h"
#include "planner/local/parts/pipeline_order.h"
#include "planner/local/parts/shared_cores.h"
#include "planner/local/tape.h"
#include "spec/model/exchange.h"
#include "spec/model/operators.h"
#include "spec/model/parameters.h"

namespace longhaul::planner {
namespace {

constexpr int64_t kFloatBytes = 4;
constexpr double kEvaluationSequences = 16;  // trainer/loop.cc evaluates so many at once

// The built-in trainer's slice of the operator list: kernels are plain, words are cut as they come.
spec::LayerSlice SliceOf(const LocalLayout& layout, uint32_t micro_batch) {
  spec::LayerSlice slice;
  slice.tensor = layout.tensor;
  slice.micro_batch = micro_batch;
  slice.vocabulary_multiple = 1;
  return slice;
}

Bytes FloatBytes(double floats) {
  constexpr double kMost = 1e17;
  return Bytes(static_cast<int64_t>(std::min(kMost, kFloatBytes * floats)));
}

// Memory-bound operators differ in bytes and passes for each element, so each kind has a figure of
// its own.
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

OperatorTime TimeOf(const OperatorTimes& times, const spec::Operator& op) {
  switch (op.kind) {
    case spec::OperatorKind::kMatmul: {
      const OperatorTime one = times.Of(FigureKind::kMatmul, {op.m, op.n, op.k});
      return {op.groups * one.forward_s, op.groups * one.backward_s};
    }
    case spec::OperatorKind::kAttention:
      return times.Of(FigureKind::kAttention, {op.batch_heads, op.queries, op.head_dim});
    case spec::OperatorKind::kMemoryBound:
      break;
  }
  return times.Of(StreamKind(op), {op.m, op.n, 0});
}

OperatorTime TimeOf(const OperatorTimes& times, const spec::OperatorList& list) {
  OperatorTime sum;
  for (const spec::Operator& op : list) {
    const OperatorTime one = TimeOf(times, op);
    sum.forward_s += one.forward_s;
    sum.backward_s += one.backward_s;
  }
  return sum;
}

// The ranks of a layout as processes that share the machine's cores.
// Writes for each rank the program of a step, which PlayThrough (parts/shared_cores.h) executes on
// the machine's cores. A layer counts as two halves, attention and FFN, with a sum of the tensor
// group after each.
class Players {
 public:
  Players(const OperatorTimes& times, uint32_t cores, const spec::ModelSpec& model,
          const LocalLayout& layout, uint32_t micro_batch)
      : times_(times), cores_(cores), layout_(layout) {
    const spec::Model shape = spec::FromBuiltIn(model);
    const spec::LayerSlice slice = SliceOf(layout, micro_batch);
    embedding_ = TimeOf(times, spec::EmbeddingOperators(shape, slice));
    layer_ = TimeOf(times, spec::LayerOperators(shape, {}, slice));
    loss_ = TimeOf(times, spec::LossOperators(shape, slice));
    stream_bytes_ = kFloatBytes * double(micro_batch) * model.sequence * model.hidden;
    column_bytes_ = kFloatBytes * double(micro_batch) * model.sequence;
  }

  // A step's micro-batches and, at their end, the sum of `floats` gradients by stage.
  double Step(const spec::ModelSpec& model, uint32_t micro_batches,
              const std::vector<double>& floats) {
    programs_.resize(layout_.ranks());
    MakeGroups();
    for (uint32_t rank = 0; rank < layout_.ranks(); ++rank) {
      const uint32_t stage = StageOf(rank);
      const uint32_t layers = spec::LayersOfStage(model.layers, layout_.pipeline, stage).count();
      for (const PipelineAction& action :
           OneForwardOneBackward(layout_.pipeline, stage, micro_batches)) {
        if (action.kind == PipelineAction::Kind::kForward) {
          Forward(rank, layers);
        } else {
          Backward(rank, layers);
        }
      }
      const double state = floats[stage];
      if (layout_.data > 1) Meet(rank, DataGroup(rank), layout_.data, kFloatBytes * state);
      Meet(rank, CopyGroup(rank), layout_.tensor * layout_.pipeline, kNormBytes);
      Compute(rank, times_.Of(FigureKind::kOptimizer, {state, 0, 0}).forward_s);
    }
    return PlayThrough(cores_, programs_, groups_);
  }

 private:
  static constexpr double kNormBytes = 32;  // norm, loss and two wishes

  uint32_t StageOf(uint32_t rank) const { return rank / (layout_.tensor * layout_.data); }
  uint32_t ReplicaOf(uint32_t rank) const { return rank / layout_.tensor % layout_.data; }
  // Groups lie in this order: of parts, of replicas, of copies of the model.
  uint32_t TensorGroup(uint32_t rank) const { return rank / layout_.tensor; }
  uint32_t DataGroup(uint32_t rank) const {
    return layout_.data * layout_.pipeline + StageOf(rank) * layout_.tensor + rank % layout_.tensor;
  }
  uint32_t CopyGroup(uint32_t rank) const {
    return (layout_.data + layout_.tensor) * layout_.pipeline + ReplicaOf(rank);
  }

  void MakeGroups() {
    groups_.resize((layout_.data + layout_.tensor) * layout_.pipeline + layout_.data);
    for (uint32_t rank = 0; rank < layout_.ranks(); ++rank) {
      for (const uint32_t group : {TensorGroup(rank), DataGroup(rank), CopyGroup(rank)}) {
        groups_[group].push_back(rank);
      }
    }
  }

  void Compute(uint32_t rank, double seconds) {
    programs_[rank].push_back({CoreTask::Kind::kCompute, seconds, 0});
  }

  // By the clock, of these ranks alone.
  double SumSeconds(uint32_t ranks, double bytes) const {
    return times_.Of(FigureKind::kAllReduce, {double(ranks), bytes, 0}).forward_s;
  }

  void Meet(uint32_t rank, uint32_t group, uint32_t ranks, double bytes) {
    if (ranks < 2) return;
    if (ranks == 2 && bytes <= double(spec::kExchangedBytes)) return Exchange(rank, group, bytes);
    // All work at once.
    const double seconds = SumSeconds(ranks, bytes) * std::min(1.0, double(cores_) / ranks);
    programs_[rank].push_back({CoreTask::Kind::kMeet, seconds, group});
  }
  // There and back, one end after the other: a quarter of the clock's time at each.
  void Exchange(uint32_t rank, uint32_t group, double bytes) {
    const bool first = groups_[group][0] == rank;
    const CoreTask send = {CoreTask::Kind::kSend, SumSeconds(2, bytes) / 4,
                           groups_[group][first ? 1 : 0]};
    const CoreTask receive = {CoreTask::Kind::kReceive, send.seconds, send.other};
    programs_[rank].push_back(first ? send : receive);
    programs_[rank].push_back(first ? receive : send);
  }
  void TensorSum(uint32_t rank, double bytes) {
    Meet(rank, TensorGroup(rank), layout_.tensor, bytes);
  }

  // A message is half of what two ranks exchange.
  void Message(uint32_t rank, bool sends, uint32_t stage) {
    const uint32_t other =
        rank % (layout_.tensor * layout_.data) + stage * layout_.tensor * layout_.data;
    programs_[rank].push_back({sends ? CoreTask::Kind::kSend : CoreTask::Kind::kReceive,
                               SumSeconds(2, stream_bytes_) / 4, other});
  }

  void Forward(uint32_t rank, uint32_t layers) {
    const uint32_t stage = StageOf(rank);
    if (stage > 0) {
      Message(rank, false, stage - 1);
    } else {
      Compute(rank, embedding_.forward_s);
      TensorSum(rank, stream_bytes_);
    }
    for (uint32_t half = 0; half < 2 * layers; ++half) {
      Compute(rank, layer_.forward_s / 2);
      TensorSum(rank, stream_bytes_);
    }
    if (stage + 1 < layout_.pipeline) return Message(rank, true, stage + 1);
    Compute(rank, loss_.forward_s);
    TensorSum(rank, column_bytes_);      // the highest logits
    TensorSum(rank, 2 * column_bytes_);  // sums of powers, targets
  }

  void Backward(uint32_t rank, uint32_t layers) {
    const uint32_t stage = StageOf(rank);
    if (stage + 1 < layout_.pipeline) {
      Message(rank, false, stage + 1);
    } else {
      Compute(rank, loss_.backward_s);
      TensorSum(rank, stream_bytes_);
    }
    for (uint32_t half = 0; half < 2 * layers; ++half) {
      Compute(rank, layer_.backward_s / 2);
      TensorSum(rank, stream_bytes_);
    }
    if (stage > 0) return Message(rank, true, stage - 1);
    Compute(rank, embedding_.backward_s);
  }

  const OperatorTimes& times_;
  const uint32_t cores_;
  const LocalLayout layout_;
  OperatorTime embedding_;
  OperatorTime layer_;
  OperatorTime loss_;
  double stream_bytes_ = 0;
  double column_bytes_ = 0;
  std::vector<std::vector<CoreTask>> programs_;
  std::vector<std::vector<uint32_t>> groups_;
};

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

int64_t StageParameters(const spec::ModelSpec& model, const LocalLayout& layout, uint32_t stage) {
  if (layout.whole_model()) return TrainerParameters(model);
  const auto hidden = int64_t{model.hidden};
  const int64_t tensor = layout.tensor;
  // The fullest part: words need not divide.
  const int64_t words = (int64_t{model.vocabulary} + tensor - 1) / tensor;
  const int64_t layers = spec::LayersOfStage(model.layers, layout.pipeline, stage).count();
  // Norms and the biases after sums are whole on each part.
  int64_t count = layers * (12 * hidden * hidden / tensor + 7 * hidden / tensor + 6 * hidden);
  if (stage == 0) {
    count += (1 + int64_t{spec::kPreviousTokens}) * words * hidden + model.sequence * hidden;
  }
  if (stage + 1 == layout.pipeline) count += words * hidden + 2 * hidden;
  return count;
}

LocalCost::LocalCost(const MachineFacts& facts) : facts_(facts), times_(facts.device.figures) {
  CHECK(CheckFacts(facts).ok());
}

double LocalCost::MicroBatchSeconds(const spec::ModelSpec& model, uint32_t micro_batch) const {
  const spec::Model shape = spec::FromBuiltIn(model);
  const spec::LayerSlice slice = SliceOf({}, micro_batch);
  return TimeOf(times_, spec::EmbeddingOperators(shape, slice)).total() +
         model.layers * TimeOf(times_, spec::LayerOperators(shape, {}, slice)).total() +
         TimeOf(times_, spec::LossOperators(shape, slice)).total();
}

StepTime LocalCost::Step(const spec::ModelSpec& model, uint32_t global_batch,
                         const LocalLayout& layout, uint32_t micro_batch) const {
  CHECK(layout.ranks() >= 1 && micro_batch >= 1);
  const uint64_t sequences_at_once = uint64_t{layout.data} * micro_batch;
  CHECK(global_batch >= 1 && global_batch % sequences_at_once == 0);
  const uint64_t micro_batches = global_batch / sequences_at_once;
  const uint32_t ranks = layout.ranks();
  StepTime step;
  step.runtime = Seconds(times_.Of(FigureKind::kRuntime, {double(ranks), 0, 0}).forward_s);
  if (!layout.whole_model()) {
    PartedStep(model, layout, micro_batch, static_cast<uint32_t>(micro_batches), step);
    return step;
  }
  const auto parameters = static_cast<double>(TrainerParameters(model));
  // Integer division on purpose: the core with most ranks sets the pace.
  const double ranks_a_core = (ranks - 1) / facts_.cores + 1;
  step.compute = Seconds(ranks_a_core * static_cast<double>(micro_batches) *
                         MicroBatchSeconds(model, micro_batch));
  step.optimizer =
      Seconds(ranks_a_core * times_.Of(FigureKind::kOptimizer, {parameters, 0, 0}).forward_s);
  if (ranks > 1) {
    const std::array<double, 3> sizes = {double(ranks), kFloatBytes * parameters, 0};
    step.all_reduce = Seconds(times_.Of(FigureKind::kAllReduce, sizes).forward_s);
  }
  return step;
}

PartTime LocalCost::MicroBatch(const spec::ModelSpec& model, uint32_t tensor,
                               uint32_t micro_batch) const {
  const spec::Model shape = spec::FromBuiltIn(model);
  const spec::LayerSlice slice = SliceOf({1, tensor, 1}, micro_batch);
  return {TimeOf(times_, spec::LayerOperators(shape, {}, slice)).total(),
          TimeOf(times_, spec::EmbeddingOperators(shape, slice)).total() +
              TimeOf(times_, spec::LossOperators(shape, slice)).total()};
}

Seconds LocalCost::LeastStep(const spec::ModelSpec& model, uint32_t global_batch,
                             const LocalLayout& layout, uint32_t micro_batch,
                             const PartTime& part) const {
  // The first stage has no fewer layers than any other.
  const double most = part.layer_s * spec::LayersOfStage(model.layers, layout.pipeline, 0).count();
  const double all =
      double(layout.tensor) * layout.data * (model.layers * part.layer_s + part.ends_s);
  const double micro_batches = double(global_batch) / layout.data / micro_batch;
  return Seconds(micro_batches * std::max(most, all / facts_.cores));
}

void LocalCost::PartedStep(const spec::ModelSpec& model, const LocalLayout& layout,
                           uint32_t micro_batch, uint32_t micro_batches, StepTime& step) const {
  std::vector<double> floats;
  for (uint32_t stage = 0; stage < layout.pipeline; ++stage) {
    floats.push_back(static_cast<double>(StageParameters(model, layout, stage)));
  }
  const double all =
      Players(times_, facts_.cores, model, layout, micro_batch).Step(model, micro_batches, floats);
  const double ranks_a_core = (layout.ranks() - 1) / facts_.cores + 1;
  const double largest = *std::max_element(floats.begin(), floats.end());
  step.optimizer =
      Seconds(ranks_a_core * times_.Of(FigureKind::kOptimizer, {largest, 0, 0}).forward_s);
  if (layout.data > 1) {
    const std::array<double, 3> sizes = {double(layout.data), kFloatBytes * largest, 0};
    step.all_reduce = Seconds(times_.Of(FigureKind::kAllReduce, sizes).forward_s);
  }
  // What remains is compute with its waits; the breakdown adds up to the played step.
  step.compute = std::max(Seconds(0), Seconds(all) - step.optimizer - step.all_reduce);
}

RankMemory LocalCost::Memory(const spec::ModelSpec& model, const spec::TrainSpec& train,
                             const LocalLayout& layout, uint32_t micro_batch, Bytes data) const {
  CHECK(layout.ranks() >= 1 && micro_batch >= 1);
  int64_t parameters = 0;
  for (uint32_t stage = 0; stage < layout.pipeline; ++stage) {
    parameters = std::max(parameters, StageParameters(model, layout, stage));
  }
  const Bytes state = FloatBytes(static_cast<double>(parameters));
  RankMemory memory;
  memory.weights = state;
  memory.gradients = state;
  memory.moments = 2 * state;
  const double evaluated =
      std::min(kEvaluationSequences, std::ceil(double(train.evaluate_sequences) / layout.data));
  memory.activations = TrainingPeak(model, micro_batch).held;
  if (evaluated > 0) {
    memory.activations = std::max(memory.activations, EvaluationPeak(model, evaluated).held);
  }
  memory.snapshot_slots = 3 * (memory.weights + memory.moments);
  memory.data = data;
  memory.process = facts_.device.process_memory;
  return memory;
}

}  // namespace longhaul::planner
