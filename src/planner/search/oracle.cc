#include "planner/search/oracle.h"

#include <algorithm>

#include "planner/memory/memory_model.h"
#include "planner/search/internal/never.h"
#include "planner/search/stage_recompute.h"

namespace longhaul::planner::search {
namespace {

using spec::Training;

using internal::kNever;

// As EvaluatorOf, but with every group at the best place that it could have, and with launches or
// without.
Evaluator BoundOf(const PlanRequest& job, bool launches) {
  Links links = job.machine ? job.machine->links : ShippedLinks(job.cluster);
  links.any_placement = true;
  SoftwareStack stack = StackOf(job.base.software);
  if (job.machine) {
    stack = job.machine->stack;
    stack.compute_factor *= job.base.software.compute_factor;
  }
  if (!launches) {
    stack.launch_s = 0;
    stack.expert_host_s = 0;
    stack.expert_call_s = 0;
  }
  const DeviceMatrix matrix = job.machine ? job.machine->matrix : ShippedMatrix(job.cluster.device);
  return Evaluator(job.model, job.cluster, matrix, links, stack);
}

class FromEvaluator : public Oracle {
 public:
  explicit FromEvaluator(const PlanRequest& job)
      : overlaps_(job.model.experts && job.fixed.overlap_expert.value_or(true)),
        dual_pipe_(overlaps_ && job.reach == Reach::kEverything &&
                   job.fixed.schedule.value_or(spec::PipelineSchedule::kDualPipe) ==
                       spec::PipelineSchedule::kDualPipe),
        memory_(job.model, job.cluster),
        chooser_(job),
        limit_(MemoryLimit(job)),
        exact_(EvaluatorOf(job, job.cluster, job.base.software)),
        placed_(BoundOf(job, /*launches=*/true)),
        floor_(BoundOf(job, /*launches=*/false)) {}

  bool Choose(Training& training, double enough) override {
    return chooser_.Choose(exact_, memory_, limit_, training, enough) == 0;
  }

  uint64_t effort() const override { return chooser_.effort(); }

  double StepSeconds(const Training& training) override {
    if (!IsOpen(training)) return exact_.StepSeconds(training).count();
    chosen_ = training;
    return Choose(chosen_, kNever) ? exact_.StepSeconds(chosen_).count() : kNever;
  }

  int64_t MemoryBytes(const Training& training) override {
    if (!IsOpen(training)) return GpuBytes(training);
    chosen_ = training;
    if (Choose(chosen_, kNever)) return GpuBytes(chosen_);
    chosen_.recompute = {};
    chosen_.recompute.kind = spec::RecomputeKind::kFull;
    return std::max(limit_ + 1, GpuBytes(chosen_));
  }

  bool Fits(const Training& training) override {
    if (!IsOpen(training)) return memory_.Fits(training, Bytes(limit_));
    chosen_ = training;
    return Choose(chosen_, kNever) && memory_.Fits(chosen_, Bytes(limit_));
  }

  bool MayFit(const Training& training) override {
    relaxed_ = training;
    relaxed_.stage_recompute.clear();
    relaxed_.recompute = {};
    // Full recompute in every layer keeps least, so what does not fit with it fits with no choice.
    relaxed_.recompute.kind = spec::RecomputeKind::kFull;
    return memory_.MayFit(relaxed_, Bytes(limit_));
  }

  // The sum over all stages does not depend on how layers are spread, and the slowest stage is at
  // least the mean one.
  double ShapeBound(const Training& training) override {
    relaxed_ = training;
    Relax(relaxed_);
    spec::Layout& layout = relaxed_.layout;
    // The schedule that hides most of the experts' exchange, where one may be proposed.
    const bool dual_pipe = dual_pipe_ && layout.pipeline % 2 == 0;
    layout.schedule = dual_pipe ? spec::PipelineSchedule::kDualPipe
                                : spec::PipelineSchedule::kOneForwardOneBackward;
    relaxed_.software.overlap_expert = overlaps_;
    relaxed_.layout.virtual_pipeline = 1;
    relaxed_.layout.layers_per_stage.clear();
    floor_.Evaluate(relaxed_, evaluation_);
    double sum = 0;
    for (const StageEvaluation& stage : evaluation_.stages) {
      sum += stage.forward.count() + stage.backward.count();
    }
    return sum / static_cast<double>(evaluation_.stages.size()) * evaluation_.micro_batches;
  }

  double StagesBound(const Training& training) override {
    relaxed_ = training;
    Relax(relaxed_);
    // The states are still open, so the gradients' traffic and the optimizer are left out, and so
    // are straggling nodes.
    const StepBreakdown& parts = placed_.Parts(relaxed_);
    return (parts.total() - parts.straggle - parts.data_exposed - parts.optimizer).count();
  }

  // Recompute makes no layer faster, but a longer backward hides more of the gradients' traffic:
  // the traffic is that of the better end, nothing or everything recomputed.
  double StatesBound(const Training& training) override {
    relaxed_ = training;
    relaxed_.offload = spec::Offload::kNone;
    relaxed_.recompute = {};
    const StepBreakdown parts = placed_.Parts(relaxed_);
    const Seconds rest = parts.total() - parts.straggle - parts.data_exposed;
    if (!(parts.data_exposed > Seconds(0))) return rest.count();
    relaxed_.recompute.kind = spec::RecomputeKind::kFull;
    const Seconds hidden_most = placed_.Parts(relaxed_).data_exposed;
    return (rest + std::min(parts.data_exposed, hidden_most)).count();
  }

  // What offload waits for depends on which stage is slowest, which another place may change.
  // By stage: the least that any place allows is chosen by the figures of the best place.
  double RecomputeBound(const Training& training, double enough) override {
    const Training* bounded = &training;
    if (IsOpen(training)) {
      chosen_ = training;
      const double bound = chooser_.Choose(placed_, memory_, limit_, chosen_, enough);
      if (bound > 0) return bound;
      bounded = &chosen_;
    }
    const StepBreakdown& parts = placed_.Parts(*bounded);
    return (parts.total() - parts.straggle - parts.offload_exposed).count();
  }

  int64_t StatesMemoryBound(const Training& training) override {
    relaxed_ = training;
    relaxed_.recompute.kind = spec::RecomputeKind::kFull;
    relaxed_.batch.micro = 1;
    memory_.Evaluate(relaxed_, evaluation_);
    // The fullest stage holds at least the mean. The sum of the states does not depend on the split
    // of the layers, which is still open here.
    int64_t bytes = 0;
    for (const StageEvaluation& stage : evaluation_.stages) {
      bytes += (stage.memory.weights + stage.memory.gradients + stage.memory.optimizer).count();
    }
    return bytes / static_cast<int64_t>(evaluation_.stages.size());
  }

 private:
  static bool IsOpen(const Training& training) {
    return training.recompute.kind == spec::RecomputeKind::kByStage &&
           training.stage_recompute.empty();
  }

  int64_t GpuBytes(const Training& training) {
    memory_.Evaluate(training, evaluation_);
    return evaluation_.device_memory.count();
  }

  // The cheapest value of every choice below the stages: no recompute, no offload, no sharding.
  static void Relax(Training& training) {
    training.recompute = {};
    training.offload = spec::Offload::kNone;
    training.layout.zero_stage = 0;
    training.layout.shard_group = 0;
  }

  const bool overlaps_;
  const bool dual_pipe_;
  MemoryModel memory_;
  RecomputeChooser chooser_;
  const int64_t limit_;
  Evaluator exact_;
  Evaluator placed_;
  Evaluator floor_;
  Training relaxed_;
  Training chosen_;
  Evaluation evaluation_;
};

}  // namespace

OracleFactory EvaluatorOracle(const PlanRequest& job) {
  return [job] { return std::make_unique<FromEvaluator>(job); };
}

int64_t MemoryLimit(const PlanRequest& job) {
  const double share = std::clamp(1 - job.headroom, 0.0, 1.0);
  return static_cast<int64_t>(static_cast<double>(job.cluster.device.memory.count()) * share);
}

}  // namespace longhaul::planner::search
