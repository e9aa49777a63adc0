#include <algorithm>
#include <array>
#include <optional>

#include "planner/case.h"
#include "planner/framework.h"

namespace longhaul::planner {

namespace {

using spec::RecomputeKind;

// Enough for every open axis of a large cluster; a bound for hostile cases.
constexpr size_t kMaxEvaluations = 20'000;
constexpr size_t kMaxAttempts = 200'000;
// Who chooses leaves the allocator's spread free (memory/gpu_memory.h), as a run that just fits
// fails on the first longer batch or a new library. A run whose layout and batch are said did fit,
// and recomputes no more than it needed to.
constexpr double kRoomyShare = 0.96;
constexpr uint32_t kMaxTensor = 16;
constexpr uint32_t kMaxMicroBatch = 64;
constexpr uint32_t kMaxVirtual = 32;

using Axis = std::vector<uint32_t>;

// Divisors of `number` up to `most`, in order.
Axis Divisors(uint32_t number, uint32_t most) {
  Axis axis;
  for (uint32_t d = 1; d <= std::min(number, most); ++d) {
    if (number % d == 0) axis.push_back(d);
  }
  return axis;
}

// From least to most recompute: what a user turns on, one after the other, until it fits.
std::vector<spec::Recompute> Ladder(const Question& question) {
  std::vector<spec::Recompute> ladder(1);
  spec::Recompute step;
  step.kind = RecomputeKind::kSelective;
  if (FamilyOf(question.training.software) == Family::kShardedData) {
    ladder.push_back(step);  // every second product, which has no module's name
    step.kind = RecomputeKind::kFull;
    ladder.push_back(step);
    return ladder;
  }
  if (!question.training.software.flash_attention) {
    step.modules.core_attention = true;
    ladder.push_back(step);
  }
  step.modules.layer_norm = true;
  step.modules.moe_activation = question.model.experts.has_value();
  step.modules.mla_up_projection = question.model.multi_latent.has_value();
  ladder.push_back(step);
  step.modules.mlp = true;
  ladder.push_back(step);
  if (question.model.experts) {
    step.modules.moe = true;
    ladder.push_back(step);
  }
  step = {};
  step.kind = RecomputeKind::kFull;
  ladder.push_back(step);
  return ladder;
}

// Enumerates the open choices of a case as nested axes and keeps the fastest layout that fits with
// room to spare, else the fastest that fits, else the smallest. An axis that is not open has one
// value. The counts of attempts and evaluations bound hostile cases.
class Decision {
 public:
  Decision(const EvaluateQuestion& evaluate, Case& decided)
      : evaluate_(evaluate),
        case_(decided),
        question_(decided.question),
        global_(decided.question.training.batch.global) {
    const spec::Training& training = question_.training;
    if (decided.open.recompute) {
      ladder_ = Ladder(question_);
    } else {
      ladder_.push_back(training.recompute);
    }
  }

  Status Run() {
    Tensors();
    if (!best_) best_ = tight_;
    if (!best_ && !smallest_) {
      return why_not_.ok() ? InvalidArgument("no size of the open dimensions fills " +
                                             std::to_string(question_.cluster.devices) + " devices")
                           : why_not_;
    }
    question_.training = best_ ? best_->training : smallest_->training;
    Note();
    return {};
  }

 private:
  struct Found {
    spec::Training training;
    double sequence_s = 0;
    Bytes memory;
  };

  spec::Layout& layout() { return question_.training.layout; }

  // Each axis sets its figure to each candidate, then continues to the next.
  void Tensors() {
    const uint32_t island = std::min(question_.cluster.island, kMaxTensor);
    const Axis axis =
        case_.open.tensor ? Divisors(question_.model.heads, island) : Axis{layout().tensor};
    for (const uint32_t tensor : axis) {
      layout().tensor = tensor;
      Pipelines();
    }
  }

  void Pipelines() {
    Axis axis{layout().pipeline};
    if (case_.open.pipeline) axis = Divisors(question_.cluster.devices, question_.model.layers);
    for (const uint32_t pipeline : axis) {
      layout().pipeline = pipeline;
      if (case_.open.data && !FillData()) continue;
      Experts();
    }
  }

  bool FillData() {
    const uint64_t copies = uint64_t{layout().tensor} * layout().pipeline * layout().context;
    if (question_.cluster.devices % copies != 0) return false;
    layout().data = static_cast<uint32_t>(question_.cluster.devices / copies);
    return true;
  }

  void Experts() {
    Axis axis{layout().expert};
    if (case_.open.expert) axis = Divisors(question_.model.experts->count, 1'024);
    for (const uint32_t expert : axis) {
      layout().expert = expert;
      Virtuals();
    }
  }

  void Virtuals() {
    Axis axis{layout().virtual_pipeline};
    if (case_.open.virtual_pipeline) {
      axis = {1};
      for (uint32_t v = 2; v <= kMaxVirtual && layout().pipeline > 1; ++v) {
        const uint64_t chunks = uint64_t{v} * layout().pipeline;
        // The schedule needs whole layers in each chunk, so only such numbers of chunks are tried.
        const uint64_t layers = question_.model.layers;
        // Embedding and loss may count as layers, and then be a chunk's only one besides.
        if (chunks > layers + 2) break;
        if (layers % chunks == 0 || (layers + 2) % chunks == 0) axis.push_back(v);
      }
    }
    for (const uint32_t v : axis) {
      layout().virtual_pipeline = v;
      MicroBatches();
    }
  }

  void MicroBatches() {
    spec::Batch& batch = question_.training.batch;
    if (case_.global_batch_known) batch.global = std::max(global_, layout().data);
    const uint32_t share = case_.global_batch_known
                               ? (batch.global + layout().data - 1) / layout().data
                               : kMaxMicroBatch;
    Axis axis{batch.micro};
    if (case_.open.micro_batch) axis = Divisors(share, kMaxMicroBatch);
    for (const uint32_t micro : axis) {
      if (++attempts_ > kMaxAttempts) return;
      batch.micro = micro;
      if (!case_.global_batch_known) {
        // One micro-batch a step and stage.
        const uint64_t global = uint64_t{layout().data} * micro * layout().pipeline;
        batch.global = static_cast<uint32_t>(std::min<uint64_t>(global, 1'000'000'000));
      }
      // Interleaved schedules require a multiple of the stages.
      const uint32_t micro_batches = (share + micro - 1) / micro;
      const bool chosen = case_.open.virtual_pipeline && layout().virtual_pipeline > 1;
      if (chosen && case_.global_batch_known && micro_batches % layout().pipeline != 0) continue;
      Recomputes();
    }
  }

  // NVIDIA's recipes for sharded weights keep activations in the memory of a Grace rather than
  // recompute them: its link carries them beside the compute.
  bool Offloads() const {
    const spec::Training& training = question_.training;
    return case_.open.recompute && training.layout.zero_stage == 3 &&
           FamilyOf(training.software) == Family::kMegatron &&
           question_.cluster.device.host_bandwidth >= BytesPerSecond(200e9);
  }

  void Recomputes() {
    spec::Software& software = question_.training.software;
    if (!case_.open.moments) return TryRecomputes();
    // Short moments are a last resort: they are tried only while nothing has fitted with long ones.
    const bool fitted = best_ || tight_;
    TryRecomputes();
    if (fitted || best_ || tight_) return;
    software.moment_bytes = 2;
    TryRecomputes();
    software.moment_bytes = 4;
  }

  void TryRecomputes() {
    const bool offloads = Offloads();
    for (size_t i = 0; i < ladder_.size() + (offloads ? 1 : 0); ++i) {
      // Offload takes the second place of the ladder: after no recompute and before any.
      const bool offload = offloads && i == 1;
      const spec::Recompute& recompute = ladder_[offload ? 0 : i - (offloads && i > 1 ? 1 : 0)];
      question_.training.offload = offload ? spec::Offload::kActivations : spec::Offload::kNone;
      question_.training.recompute = recompute;
      const Status legal = CheckTraining(question_.model, question_.cluster, question_.training);
      if (!legal.ok()) {
        if (why_not_.ok()) why_not_ = legal;
        return;
      }
      if (!choosing()) {
        best_ = Found{question_.training, 0, Bytes(0)};
        return;
      }
      if (evaluations_++ >= kMaxEvaluations) return;
      const Evaluation evaluation = evaluate_(question_);
      // By sequence: where the batch is not given, each candidate has its own.
      const double each = evaluation.step.count() / std::max(1u, question_.training.batch.global);
      const Found found{question_.training, each, evaluation.peak_allocated};
      if (evaluation.fits && Roomy(evaluation)) {
        if (!best_ || found.sequence_s < best_->sequence_s) best_ = found;
        return;  // the least that fits
      }
      if (evaluation.fits && (!tight_ || found.sequence_s < tight_->sequence_s)) tight_ = found;
      if (!smallest_ || found.memory < smallest_->memory) smallest_ = found;
    }
  }

  bool Roomy(const Evaluation& evaluation) const {
    if (!case_.open.any_size()) return true;
    const double memory = static_cast<double>(question_.cluster.device.memory.count());
    return static_cast<double>(evaluation.device_memory.count()) <= kRoomyShare * memory;
  }

  bool choosing() const { return case_.open.any(); }

  void Note() {
    const spec::Training& t = question_.training;
    const auto note = [&](bool open, const char* path, uint64_t value) {
      if (!open) return;
      case_.assumed.push_back(std::string(path) + " = " + std::to_string(value) +
                              (best_ ? " (best that fits)" : " (nothing fits)"));
    };
    note(case_.open.tensor, "layout.tensor", t.layout.tensor);
    note(case_.open.pipeline, "layout.pipeline", t.layout.pipeline);
    note(case_.open.data, "layout.data", t.layout.data);
    note(case_.open.expert, "layout.expert", t.layout.expert);
    note(case_.open.virtual_pipeline, "layout.virtual_pipeline", t.layout.virtual_pipeline);
    note(case_.open.micro_batch, "batch.micro", t.batch.micro);
    note(!case_.global_batch_known, "batch.global", t.batch.global);
    if (case_.open.moments) {
      case_.assumed.push_back("software.optimizer_moment_dtype = " +
                              std::string(t.software.moment_bytes == 2
                                              ? "bf16 (without a master copy, so that it fits)"
                                              : "fp32"));
    }
    if (t.offload == spec::Offload::kActivations) {
      case_.assumed.push_back("offload = activations (instead of recompute)");
    }
    if (!case_.open.recompute) return;
    static constexpr std::array<const char*, 3> kKinds = {"none", "selective", "full"};
    case_.assumed.push_back(std::string("recompute = ") +
                            kKinds[static_cast<size_t>(t.recompute.kind)] + " (least that fits)");
  }

  const EvaluateQuestion& evaluate_;
  Case& case_;
  Question& question_;
  std::vector<spec::Recompute> ladder_;
  const uint32_t global_;  // as given in the case
  size_t attempts_ = 0;
  size_t evaluations_ = 0;
  std::optional<Found> best_;
  std::optional<Found> tight_;  // fits, but with little free memory
  std::optional<Found> smallest_;
  Status why_not_;
};

}  // namespace

Status DecideOpen(const EvaluateQuestion& evaluate, Case& decided) {
  return Decision(evaluate, decided).Run();
}

}  // namespace longhaul::planner
