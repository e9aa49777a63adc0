#include "trainer/parallel/pipeline.h"

#include <ATen/ATen.h>
#include <c10/core/GradMode.h>

#include <optional>
#include <span>
#include <utility>

#include "base/check.h"
#include "planner/local/parts/pipeline_order.h"

namespace longhaul::trainer {
namespace {

using planner::PipelineAction;

std::span<float> Values(const at::Tensor& tensor) {
  CHECK(tensor.is_contiguous() && tensor.scalar_type() == at::kFloat);
  return {tensor.data_ptr<float>(), static_cast<size_t>(tensor.numel())};
}

// Two tags for each micro-batch, so that a stream and a gradient between the same two stages are
// never mixed up, whichever arrives first.
int StreamTag(uint32_t micro_batch) { return static_cast<int>(2 * micro_batch); }
int GradientTag(uint32_t micro_batch) { return StreamTag(micro_batch) + 1; }

}  // namespace

struct Pipeline::Passage {
  std::vector<int64_t> tokens;
  at::Tensor input;   // of a stage after the first
  at::Tensor output;  // the stream, or the loss
  at::Tensor sent;    // a gradient on its way
};

Pipeline::Pipeline(Gpt& model, const ModelPart& part, const spec::ModelSpec& shape, Group& stages)
    : model_(model),
      part_(part),
      hidden_(shape.hidden),
      sequence_(shape.sequence),
      stages_(stages) {
  CHECK(stages.world() == static_cast<int>(part.pipeline));
  CHECK(stages.rank() == static_cast<int>(part.stage));
}

Pipeline::~Pipeline() = default;

Status Pipeline::Forward(const MicroBatches& batches, uint32_t micro_batch, bool trains) {
  Passage& passage = passages_[micro_batch];
  if (part_.first() || part_.last()) passage.tokens = batches.load(micro_batch);
  if (!part_.first()) {
    const auto rows = static_cast<int64_t>(batches.sequences(micro_batch)) * sequence_;
    passage.input = at::empty({rows, hidden_});
    RETURN_IF_ERROR(
        stages_.Receive(Values(passage.input), stages_.rank() - 1, StreamTag(micro_batch)));
    passage.input.set_requires_grad(trains);
  }
  passage.output = model_.Forward(passage.input, passage.tokens);
  RETURN_IF_ERROR(model_.failure());
  if (part_.last()) {
    loss_ += passage.output.item<double>();
    return {};
  }
  return stages_.Send(Values(passage.output), stages_.rank() + 1, StreamTag(micro_batch));
}

Status Pipeline::Backward(uint32_t micro_batch, double scale) {
  Passage& passage = passages_[micro_batch];
  if (part_.last()) {
    model_.Backward(passage.output, scale);
  } else {
    const at::Tensor gradient = at::empty_like(passage.output);
    RETURN_IF_ERROR(
        stages_.Receive(Values(gradient), stages_.rank() + 1, GradientTag(micro_batch)));
    passage.output.backward(gradient);
  }
  RETURN_IF_ERROR(model_.failure());
  if (!part_.first()) {
    passage.sent = passage.input.grad().contiguous();
    RETURN_IF_ERROR(
        stages_.Send(Values(passage.sent), stages_.rank() - 1, GradientTag(micro_batch)));
  }
  // Its gradient has come, so the next stage has the stream.
  passage.output.reset();
  passage.input.reset();
  passage.tokens.clear();
  return {};
}

Status Pipeline::Finish() {
  const Status flushed = stages_.Flush();
  passages_.clear();
  return flushed;
}

Result<double> Pipeline::Train(const MicroBatches& batches, double scale, Recorder* recorder) {
  passages_.resize(batches.count);
  loss_ = 0;
  for (const PipelineAction& action :
       planner::OneForwardOneBackward(part_.pipeline, part_.stage, batches.count)) {
    const bool forward = action.kind == PipelineAction::Kind::kForward;
    const RecordedPhase phase(recorder, forward ? "forward" : "backward",
                              static_cast<int>(action.micro_batch));
    RETURN_IF_ERROR(forward ? Forward(batches, action.micro_batch, true)
                            : Backward(action.micro_batch, scale));
  }
  RETURN_IF_ERROR(Finish());
  return loss_;
}

Result<double> Pipeline::Evaluate(const MicroBatches& batches) {
  const c10::NoGradGuard no_gradients;
  passages_.resize(batches.count);
  loss_ = 0;
  for (uint32_t i = 0; i < batches.count; ++i) {
    RETURN_IF_ERROR(Forward(batches, i, false));
    if (part_.last()) passages_[i] = {};
  }
  RETURN_IF_ERROR(Finish());
  return loss_;
}

}  // namespace longhaul::trainer
