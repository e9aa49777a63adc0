#include <algorithm>
#include <nlohmann/json.hpp>

#include "planner/case.h"

namespace longhaul::planner {

namespace {

using OrderedJson = nlohmann::ordered_json;

OrderedJson Times(const StepBreakdown& step) {
  return {{"forward", step.forward.count()},
          {"backward", step.backward.count()},
          {"recompute", step.recompute.count()},
          {"tensor_exposed", step.tensor_exposed.count()},
          {"context_exposed", step.context_exposed.count()},
          {"expert_exposed", step.expert_exposed.count()},
          {"pipeline_exposed", step.pipeline_exposed.count()},
          {"bubble", step.bubble.count()},
          {"data_exposed", step.data_exposed.count()},
          {"optimizer", step.optimizer.count()},
          {"offload_exposed", step.offload_exposed.count()},
          {"host", step.host.count()},
          {"straggle", step.straggle.count()}};
}

OrderedJson Parts(const MemoryBreakdown& memory) {
  return {{"weights", memory.weights.count()},
          {"gradients", memory.gradients.count()},
          {"optimizer", memory.optimizer.count()},
          {"gathered", memory.gathered.count()},
          {"dummy_gradients", memory.dummy_gradients.count()},
          {"activations", memory.activations.count()},
          {"loss", memory.loss.count()},
          {"transient", memory.transient.count()},
          {"workspace", memory.workspace.count()}};
}

OrderedJson Choices(const Case& answered) {
  const spec::Training& training = answered.question.training;
  static constexpr const char* kKinds[] = {"none", "selective", "full"};
  return {{"tensor", training.layout.tensor},
          {"pipeline", training.layout.pipeline},
          {"virtual_pipeline", training.layout.virtual_pipeline},
          {"context", training.layout.context},
          {"expert", training.layout.expert},
          {"data", training.layout.data},
          {"micro_batch", training.batch.micro},
          {"recompute", kKinds[static_cast<size_t>(training.recompute.kind)]}};
}

std::string Line(const OrderedJson& json) {
  return json.dump(-1, ' ', false, OrderedJson::error_handler_t::replace);
}

}  // namespace

std::string AnswerText(const Case& answered, const Evaluation& evaluation, const StepBand& band) {
  const double step = evaluation.step.count();
  const double devices = answered.question.cluster.devices;
  const double rate = step > 0 && devices > 0 ? 1e-12 / (step * devices) : 0;
  OrderedJson stages = OrderedJson::array();
  const StageEvaluation* fullest = nullptr;
  for (const StageEvaluation& stage : evaluation.stages) {
    stages.push_back(stage.memory.total().count());
    if (fullest == nullptr || stage.memory.total() > fullest->memory.total()) fullest = &stage;
  }
  OrderedJson breakdown = {{"seconds", Times(evaluation.breakdown)}};
  if (fullest != nullptr) breakdown["memory_bytes"] = Parts(fullest->memory);
  OrderedJson answer = {{"case", answered.id},
                        {"step_seconds", step},
                        {"tokens_per_second_per_gpu", evaluation.tokens_per_second_per_device},
                        {"peak_memory_bytes", evaluation.peak_allocated.count()},
                        {"peak_reserved_bytes", evaluation.peak_reserved.count()},
                        {"device_memory_bytes", evaluation.device_memory.count()},
                        {"stage_memory_bytes", std::move(stages)},
                        {"fits", evaluation.fits},
                        {"mfu", evaluation.model_flops_utilization},
                        {"hfu", evaluation.hardware_flops_utilization},
                        {"model_tflops_per_gpu", evaluation.model_flops.count() * rate},
                        {"hardware_tflops_per_gpu", evaluation.hardware_flops.count() * rate},
                        {"step_seconds_low", band.low.count()},
                        {"step_seconds_high", band.high.count()},
                        {"micro_batches", evaluation.micro_batches},
                        {"layout", Choices(answered)},
                        {"breakdown", std::move(breakdown)},
                        {"assumed", answered.assumed}};
  if (!answered.unknown.empty()) answer["unknown_keys"] = answered.unknown;
  return Line(answer);
}

std::string ErrorText(std::string_view id, const Status& status) {
  return Line(OrderedJson{{"case", id}, {"error", status.message()}});
}

}  // namespace longhaul::planner
