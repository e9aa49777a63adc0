// DeepSpeed's configuration file. Keys: docs/_pages/config-json.md of DeepSpeed 0.14 to 0.19; what
// is written was read by DeepSpeedConfig of 0.19.8.
#include <nlohmann/json.hpp>
#include <string>

#include "planner/flags/internal/writers.h"

namespace longhaul::planner::flags::internal {
namespace {

using Json = nlohmann::ordered_json;
using spec::Precision;
using spec::RecomputeKind;

Json ZeroSection(const Question& question) {
  const spec::Training& training = question.training;
  Json zero;
  zero["stage"] = training.layout.zero_stage;
  zero["overlap_comm"] = training.software.overlap_gradient;
  zero["contiguous_gradients"] = true;
  // Elements, the documented defaults: what the planner's buckets assume.
  zero["reduce_bucket_size"] = 500'000'000;
  if (training.layout.zero_stage >= 3) {
    zero["stage3_prefetch_bucket_size"] = 50'000'000;
    zero["stage3_param_persistence_threshold"] = 100'000;
  } else {
    zero["allgather_bucket_size"] = 500'000'000;
  }
  if (training.offload == spec::Offload::kOptimizer) {
    zero["offload_optimizer"] = Json{{"device", "cpu"}, {"pin_memory", true}};
  }
  return zero;
}

}  // namespace

Status CheckDeepSpeed(const Question& question) {
  const spec::Training& training = question.training;
  const spec::Layout& layout = training.layout;
  if (!SamePlaces(layout, spec::kUsualOrder)) {
    return Unimplemented(
        "DeepSpeed places tensor, context, data and pipeline in this order and no other");
  }
  if (layout.tensor > 1 || layout.pipeline > 1 || layout.context > 1 || layout.expert > 1) {
    return Unimplemented(
        "DeepSpeed's file has no key for tensor, pipeline, context or expert dimensions (its model "
        "code sets them): use 1 for each, or another framework");
  }
  if (training.recompute.kind == RecomputeKind::kSelective || training.recompute.full_layers > 0) {
    return Unimplemented("DeepSpeed's file cannot choose modules to recompute: use none or full");
  }
  if (layout.shard_group != 0 && layout.shard_group != layout.data) {
    return Unimplemented(
        "DeepSpeed 0.19 shards over all replicas: mics_shard_size, for groups of them, is gone");
  }
  if (training.offload == spec::Offload::kActivations &&
      training.recompute.kind != RecomputeKind::kFull) {
    return Unimplemented(
        "DeepSpeed offloads activations (cpu_checkpointing) with full recompute only");
  }
  if (training.offload == spec::Offload::kOptimizer && layout.zero_stage == 0) {
    return Unimplemented("DeepSpeed offloads the optimizer from ZeRO stage 1 on only");
  }
  if (training.precision != Precision::kBf16 && training.precision != Precision::kFp16 &&
      training.precision != Precision::kFp32) {
    return Unimplemented("DeepSpeed's file has no key for FP8 and FP4: use bf16");
  }
  const uint64_t a_pass = uint64_t{layout.data} * training.batch.micro;
  if (a_pass == 0 || training.batch.global % a_pass != 0) {
    return FailedPrecondition("DeepSpeed needs a global batch that data " +
                              std::to_string(layout.data) + " times micro batch " +
                              std::to_string(training.batch.micro) + " divides, not " +
                              std::to_string(training.batch.global));
  }
  return {};
}

Launch WriteDeepSpeed(const Question& question) {
  const spec::Training& training = question.training;
  Json json;
  json["train_batch_size"] = training.batch.global;
  json["train_micro_batch_size_per_gpu"] = training.batch.micro;
  json["gradient_accumulation_steps"] = MicroBatches(training);
  json["gradient_clipping"] = 1.0;
  if (training.precision == Precision::kBf16) json["bf16"] = Json{{"enabled", true}};
  if (training.precision == Precision::kFp16) json["fp16"] = Json{{"enabled", true}};
  if (training.precision != Precision::kFp32) {
    json["data_types"] =
        Json{{"grad_accum_dtype", training.software.gradient_bytes == 4 ? "fp32" : "bf16"}};
  }
  json["zero_optimization"] = ZeroSection(question);
  Launch launch;
  if (training.recompute.kind == RecomputeKind::kFull) {
    json["activation_checkpointing"] =
        Json{{"partition_activations", false},
             {"cpu_checkpointing", training.offload == spec::Offload::kActivations},
             {"contiguous_memory_optimization", false}};
    launch.notes.push_back(
        "full recompute: call deepspeed.checkpointing.checkpoint (or the model's "
        "gradient_checkpointing_enable()) on each layer");
  }
  launch.text = json.dump(2) + "\n";
  launch.notes.push_back("start with " + std::to_string(Nodes(question.cluster)) + " nodes of " +
                         std::to_string(question.cluster.devices_per_node) +
                         " processes; written for " + std::string(Releases(Framework::kDeepSpeed)));
  return launch;
}

}  // namespace longhaul::planner::flags::internal
