#include "training/step.h"

#include <algorithm>
#include <cmath>
#include <exception>
#include <string>
#include <utility>

#include "schedule/generate.h"
#include "schedule/search.h"
#include "schedule/verify.h"

namespace longhaul::training {

Result<schedule::Schedule> ScheduleOf(const Layout& layout) {
  const uint32_t ranks = layout.pipeline;
  switch (layout.schedule) {
    case ScheduleKind::kInterleaved:
      return schedule::Interleaved(ranks, layout.micro_batches, layout.chunks);
    case ScheduleKind::kZeroBubble: {
      schedule::SearchOptions options;
      options.most_activations = ranks;  // the memory of one forward, one backward
      return schedule::Search({.ranks = ranks, .micro_batches = layout.micro_batches}, options);
    }
    case ScheduleKind::kOneForwardOneBackward:
      break;
  }
  return schedule::OneForwardOneBackward(ranks, layout.micro_batches);
}

Trainer::Trainer(const StepOptions& options, std::unique_ptr<RankContext> rank)
    : options_(options), rank_(std::move(rank)) {}

namespace {

// The layout in which bitwise mode computes it: a pass for each sequence.
Result<Layout> BitwiseLayout(Layout layout, uint32_t global_batch) {
  const std::string begin = "bitwise mode: ";
  if (layout.tensor > 1 || layout.context > 1 || layout.expert > 1) {
    return InvalidArgument(begin + "layout '" + ToString(layout) +
                           "' divides tensors, sequences or experts, which changes the bits");
  }
  const uint32_t sequences = global_batch / layout.data;
  if (layout.data > 1 && (sequences & (sequences - 1)) != 0) {
    return InvalidArgument(begin + std::to_string(sequences) +
                           " sequences of a replica are not a power of two");
  }
  layout.micro_batches = sequences;
  return layout;
}

}  // namespace

Result<std::unique_ptr<Trainer>> Trainer::Create(const ModelConfig& config, const Layout& asked,
                                                 const StepOptions& options, uint32_t rank,
                                                 CommunicatorMaker& maker) {
  RETURN_IF_ERROR(CheckTrainable(config));
  RETURN_IF_ERROR(CheckLayout(config, asked, options.global_batch));
  Layout layout = asked;
  if (options.bitwise) {
    ASSIGN_OR_RETURN(layout, BitwiseLayout(asked, options.global_batch));
    RETURN_IF_ERROR(CheckLayout(config, layout, options.global_batch));
  }
  ASSIGN_OR_RETURN(schedule::Schedule schedule, ScheduleOf(layout));
  try {
    std::unique_ptr<Trainer> trainer(
        new Trainer(options, RankContext::Create(config, layout, rank, options.type, maker)));
    RankContext& own = *trainer->rank_;
    own.bitwise = options.bitwise;
    trainer->parameters_ = std::make_unique<SlicedParameters>(
        own, LayersOfRank(config, layout, own.place.stage), options.type, options.seed, maker);
    const uint32_t sequences = options.global_batch / layout.data / layout.micro_batches;
    trainer->pipeline_ = std::make_unique<Pipeline>(own, *trainer->parameters_, std::move(schedule),
                                                    sequences, options.type);
    return trainer;
  } catch (const std::exception& error) {
    return Unavailable(error.what());
  }
}

// This rank's rows and positions of the batch.
MicroBatch Trainer::Load(const Batch& batch, uint32_t micro_batch) const {
  const Layout& layout = rank_->layout;
  const int64_t sequences = options_.global_batch / layout.data / layout.micro_batches;
  const int64_t first =
      (int64_t{rank_->place.replica} * layout.micro_batches + micro_batch) * sequences;
  const at::Tensor rows = batch.tokens.narrow(0, first, sequences);
  const auto place = [&](const at::Tensor& values) {
    return values.index_select(1, rank_->positions).t().contiguous();
  };
  return {place(rows), place(rows.narrow(1, 1, rows.size(1) - 1)),
          place(batch.mask.narrow(0, first, sequences))};
}

Result<StepResult> Trainer::Step(uint64_t number, const Batch& batch) {
  try {
    return RunStep(number, batch);
  } catch (const std::exception& error) {
    const std::string message = error.what();
    // c10 adds a backtrace.
    return Unavailable("step " + std::to_string(number) + ": " +
                       message.substr(0, message.find('\n')));
  }
}

StepResult Trainer::RunStep(uint64_t number, const Batch& batch) {
  const double tokens = std::max(1.0, batch.mask.sum().item<double>());
  parameters_->ClearGradients();
  PipelineRun run;
  run.load = [&](uint32_t micro_batch) { return Load(batch, micro_batch); };
  run.loss_scale = 1 / tokens;
  run.balance_scale = 1.0 / options_.global_batch;
  const PipelineSums sums = pipeline_->Run(run);
  rank_->pipeline->Flush();
  rank_->context->Flush();
  const at::NoGradGuard no_gradients;
  parameters_->FinishGradients();
  StepResult result;
  result.norm = std::sqrt(parameters_->SquaredNorm());
  // Each part of the tensor group has the whole loss of its tokens, and a share of the balance.
  at::Tensor total = at::zeros({2}, at::kDouble);
  total[0] = rank_->place.part == 0 ? sums.loss : 0;
  total[1] = sums.balance;
  rank_->world->Sum(total);
  result.loss = total[0].item<double>() / tokens;
  if (options_.bitwise) {
    at::Tensor limbs = sums.fixed_loss.Limbs();
    rank_->world->Sum(limbs);
    result.loss = FixedSum::Value(limbs) / tokens;
  }
  result.balance = total[1].item<double>() / options_.global_batch;
  UpdateStep step;
  step.number = number;
  step.rate = options_.rate;
  step.decay = options_.decay;
  if (options_.clip > 0 && result.norm > options_.clip) {
    step.scale = options_.clip / (result.norm + 1e-6);
  }
  parameters_->Update(options_.rule, step);
  return result;
}

}  // namespace longhaul::training
