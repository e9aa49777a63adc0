#include "planner/configs/run_config.h"

#include <algorithm>

#include "base/text.h"
#include "planner/configs/internal/readers.h"

namespace longhaul::planner::configs {
namespace {

using spec::Layout;

// Replicas: the file's number, or the number that follows from the GPUs.
Status FillData(const RunConfig& config, const spec::DeviceCluster& cluster, Layout& layout) {
  const uint64_t copies = uint64_t{layout.tensor} * layout.pipeline * layout.context;
  const uint64_t devices = cluster.devices;
  const std::string gpus = std::to_string(devices) + " GPUs";
  if (copies > devices || devices % copies != 0) {
    return InvalidArgument("tensor x pipeline x context = " + std::to_string(copies) +
                           " does not divide the cluster's " + gpus +
                           ": name a cluster of a multiple of " + std::to_string(copies));
  }
  const uint64_t data = devices / copies;
  if (config.data > 0 && config.data != data) {
    return InvalidArgument("the run has " + std::to_string(config.data) + " replicas of " +
                           std::to_string(copies) + " ranks and the cluster " + gpus +
                           ": name a cluster of " + std::to_string(config.data * copies));
  }
  layout.data = static_cast<uint32_t>(data);
  if (config.copies == 1) return {};
  if (layout.data % config.copies != 0) {
    return InvalidArgument("the run keeps " + std::to_string(config.copies) +
                           " copies of the states, which " + std::to_string(data) +
                           " replicas cannot share evenly");
  }
  if (layout.zero_stage > 0) layout.shard_group = layout.data / config.copies;
  return {};
}

// The micro batch or the global batch can follow from the other one and the micro-batches per step:
// frameworks differ in the pair that they write.
Status FillBatch(const RunConfig& config, uint32_t data, spec::Batch& batch) {
  batch.micro = config.micro_batch;
  batch.global = config.global_batch;
  if (batch.micro == 0) {
    if (batch.global == 0 || config.micro_batches == 0) {
      return InvalidArgument(
          "the run does not say its micro batch: write it, or both the global batch and how many "
          "micro-batches make a step");
    }
    const uint64_t passes = uint64_t{data} * config.micro_batches;
    if (batch.global % passes != 0) {
      return InvalidArgument("a global batch of " + std::to_string(batch.global) + " over " +
                             std::to_string(data) + " replicas x " +
                             std::to_string(config.micro_batches) +
                             " micro-batches is no whole micro batch");
    }
    batch.micro = static_cast<uint32_t>(batch.global / passes);
  }
  if (batch.global > 0) return {};
  const uint64_t global = uint64_t{batch.micro} * data * std::max(1u, config.micro_batches);
  if (global > internal::kMostSequences) {
    return InvalidArgument("a global batch of " + std::to_string(global) + " is beyond " +
                           std::to_string(internal::kMostSequences));
  }
  batch.global = static_cast<uint32_t>(global);
  return {};
}

Result<spec::Model> ModelOf(const RunConfig& config, const std::optional<spec::Model>& given) {
  if (!given && !config.model) {
    return InvalidArgument(
        config.model_name.empty()
            ? "the file does not say the model's sizes: name a MODEL too"
            : "no shipped model is '" + Printable(config.model_name, 60) +
                  "': name a MODEL too (a shipped name, a YAML or a config.json)");
  }
  spec::Model model = given ? *given : *config.model;
  if (given && config.model && !config.model->name.empty() &&
      config.model->layers != given->layers) {
    return InvalidArgument("the file's model has " + std::to_string(config.model->layers) +
                           " layers and the one named " + std::to_string(given->layers));
  }
  if (config.sequence_length > 0) model.sequence_length = config.sequence_length;
  RETURN_IF_ERROR(spec::CheckModel(model));
  return model;
}

}  // namespace

Result<RunConfig> ReadRunConfig(flags::Framework framework, std::string_view text,
                                std::string_view source) {
  if (text.size() > kLargestRunConfig) {
    return InvalidArgument(std::string(source) + " has " + std::to_string(text.size()) +
                           " bytes: at most " + std::to_string(kLargestRunConfig));
  }
  switch (framework) {
    case flags::Framework::kMegatron:
      return internal::ReadMegatron(text, source);
    case flags::Framework::kDeepSpeed:
      return internal::ReadDeepSpeed(text, source);
    case flags::Framework::kTorchtitan:
      return internal::ReadTorchtitan(text, source);
    case flags::Framework::kLonghaul:
      break;
  }
  return InvalidArgument(
      "a job of Longhaul is planned by longhaul run: --from takes megatron, deepspeed, torchtitan");
}

Result<Question> QuestionOf(const RunConfig& config, const std::optional<spec::Model>& model,
                            const spec::DeviceCluster& cluster) {
  Question question;
  ASSIGN_OR_RETURN(question.model, ModelOf(config, model));
  question.cluster = cluster;
  question.training = config.training;
  spec::Training& training = question.training;
  RETURN_IF_ERROR(FillData(config, cluster, training.layout));
  RETURN_IF_ERROR(FillBatch(config, training.layout.data, training.batch));
  RETURN_IF_ERROR(spec::CheckTraining(question.model, question.cluster, training));
  return question;
}

}  // namespace longhaul::planner::configs
