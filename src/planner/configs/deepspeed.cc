// DeepSpeed's JSON: keys of docs/_pages/config-json.md and deepspeed/runtime/config.py at 0.19.
#include <array>
#include <nlohmann/json.hpp>
#include <string>

#include "base/text.h"
#include "planner/configs/internal/readers.h"
#include "planner/configs/internal/settings.h"

namespace longhaul::planner::configs::internal {
namespace {

using Json = nlohmann::json;

constexpr int kMostDepth = 8;

constexpr auto kPassedOver = std::to_array<std::string_view>({
    "optimizer.*",
    "scheduler.*",
    "gradient_clipping",
    "steps_per_print",
    "wall_clock_breakdown",
    "dump_state",
    "prescale_gradients",
    "gradient_predivide_factor",
    "sparse_gradients",
    "communication_data_type",
    "seq_parallel_communication_data_type",
    "disable_allgather",
    "fp16.*",
    "bf16.*",
    "amp.*",
    "torch_autocast.*",
    "zero_allow_untested_optimizer",
    "zero_force_ds_cpu_optimizer",
    "zero_optimization.allgather_*",
    "zero_optimization.reduce_*",
    "zero_optimization.contiguous_gradients",
    "zero_optimization.sub_group_size",
    "zero_optimization.stage3_*",
    "zero_optimization.round_robin_gradients",
    "zero_optimization.ignore_unused_parameters",
    "zero_optimization.legacy_stage1",
    "zero_optimization.load_from_fp32_weights",
    "zero_optimization.elastic_checkpoint",
    "zero_optimization.memory_efficient_linear",
    "zero_optimization.use_all_reduce_*",
    "zero_optimization.cpu_offload_use_pin_memory",
    "zero_optimization.log_trace_cache_warnings",
    "zero_optimization.offload_optimizer.*",
    "zero_optimization.offload_param.*",
    "zero_optimization.leaf_module.*",
    "zero_optimization.override_module_apply",
    "activation_checkpointing.*",
    "elasticity.*",
    "flops_profiler.*",
    "autotuning.*",
    "tensorboard.*",
    "wandb.*",
    "comet.*",
    "csv_monitor.*",
    "comms_logger.*",
    "aio.*",
    "checkpoint.*",
    "data_efficiency.*",
    "data_types.*",
    "curriculum_learning.*",
    "compression_training.*",
    "memory_breakdown",
    "monitor_config.*",
    "nebula.*",
    "hybrid_engine.*",
    "use_data_before_expert_parallelism",
    "timers.*",
    "compile.*",
    "gradient_accumulation_dtype",
});

// Those that change time or memory in ways that the planner has no figures for.
constexpr auto kNotModelled = std::to_array<std::string_view>({
    "zero_optimization.mics_shard_size",
    "zero_optimization.zero_hpz_partition_size",
    "zero_optimization.zero_quantized_weights",
    "zero_optimization.zero_quantized_gradients",
    "sparse_attention.mode",
    "pipeline.stages",
    "sequence_parallel_size",
    "progressive_layer_drop.enabled",
});

void Flatten(const Json& json, const std::string& path, int depth, Settings& settings) {
  if (json.is_object()) {
    if (depth == kMostDepth) return settings.Refuse(path, "is more than eight maps deep");
    for (const auto& [key, value] : json.items()) {
      Flatten(value, path.empty() ? key : path + "." + key, depth + 1, settings);
    }
    return;
  }
  if (json.is_null()) return;
  const auto text = [](const Json& value) {
    return value.is_string() ? value.get<std::string>()
                             : value.dump(-1, ' ', false, Json::error_handler_t::replace);
  };
  std::vector<std::string> values;
  if (json.is_array()) {
    for (const Json& value : json) values.push_back(text(value));
  } else {
    // What its launcher would fill in from the trainer's arguments.
    if (json == "auto") return;
    values.push_back(text(json));
  }
  settings.Add(path, std::move(values));
}

void ReadZero(Settings& settings, RunConfig& config) {
  spec::Training& training = config.training;
  const std::string at = "zero_optimization.";
  settings.Whole(at + "stage", 0, 3, training.layout.zero_stage);
  const bool overlap = settings.Has(at + "overlap_comm")
                           ? settings.Switch(at + "overlap_comm")
                           : training.layout.zero_stage == 3;  // its own default
  training.software.overlap_gradient = overlap;
  training.software.overlap_parameter = overlap;
  static constexpr std::pair<std::string_view, bool> kDevices[] = {
      {"none", false}, {"cpu", true}, {"nvme", true}};
  if (settings.Word<bool>(at + "offload_optimizer.device", kDevices).value_or(false)) {
    training.offload = spec::Offload::kOptimizer;
    if (settings.Text(at + "offload_optimizer.device") == "nvme") {
      config.assumed.push_back("the optimizer is offloaded to host memory (nvme is slower)");
    }
  }
  if (settings.Switch(at + "cpu_offload")) training.offload = spec::Offload::kOptimizer;
  if (settings.Word<bool>(at + "offload_param.device", kDevices).value_or(false)) {
    config.unknown.push_back(at + "offload_param.device (the planner keeps weights on the GPU)");
  }
}

void ReadPrecision(Settings& settings, RunConfig& config) {
  spec::Training& training = config.training;
  const bool fp16 = settings.Switch("fp16.enabled");
  const bool bf16 = settings.Switch("bf16.enabled") || settings.Switch("bfloat16.enabled");
  training.precision = fp16   ? spec::Precision::kFp16
                       : bf16 ? spec::Precision::kBf16
                              : spec::Precision::kFp32;
  static constexpr std::pair<std::string_view, uint32_t> kTypes[] = {
      {"fp32", 4}, {"bf16", 2}, {"fp16", 2}};
  // Where the file does not set it, sums have the type of the model.
  const uint32_t usual = fp16 || bf16 ? 2 : 4;
  training.software.gradient_bytes =
      settings.Word<uint32_t>("data_types.grad_accum_dtype", kTypes).value_or(usual);
}

void ReadBatch(Settings& settings, RunConfig& config) {
  settings.Whole("train_batch_size", 1, kMostSequences, config.global_batch);
  settings.Whole("train_micro_batch_size_per_gpu", 1, kMostMicro, config.micro_batch);
  settings.Whole("gradient_accumulation_steps", 1, kMostSequences, config.micro_batches);
  const uint64_t pass = uint64_t{config.micro_batch} * config.micro_batches;
  if (config.global_batch == 0 || pass == 0) return;
  if (config.global_batch % pass != 0) {
    return settings.Refuse("train_batch_size",
                           std::to_string(config.global_batch) +
                               " is no multiple of train_micro_batch_size_per_gpu x "
                               "gradient_accumulation_steps = " +
                               std::to_string(pass));
  }
  config.data = static_cast<uint32_t>(config.global_batch / pass);
}

void ReadRecompute(const Json& json, Settings& settings, RunConfig& config) {
  const bool there =
      json.contains("activation_checkpointing") && json["activation_checkpointing"].is_object();
  if (there) {
    config.training.recompute.kind = spec::RecomputeKind::kFull;
    config.assumed.push_back(
        "recompute = full (activation_checkpointing is there; the model's code turns it on)");
    if (settings.Switch("activation_checkpointing.cpu_checkpointing")) {
      config.training.offload = spec::Offload::kActivations;
    }
  } else {
    config.assumed.push_back("recompute = none (activation_checkpointing is not there)");
  }
}

}  // namespace

Result<RunConfig> ReadDeepSpeed(std::string_view text, std::string_view source) {
  const Json json = Json::parse(text, nullptr, false, /*ignore_comments=*/true);
  if (json.is_discarded()) {
    return InvalidArgument(std::string(source) +
                           " is not valid JSON: DeepSpeed's configuration is one JSON object");
  }
  if (!json.is_object()) {
    return InvalidArgument(std::string(source) + ": expected a JSON object of DeepSpeed's keys");
  }
  Settings settings(std::string(source), "");
  Flatten(json, "", 0, settings);
  RunConfig config;
  config.framework = flags::Framework::kDeepSpeed;
  config.training.software.framework = "deepspeed";
  config.training.software.gradient_accumulation_fusion = false;
  config.training.software.loss_fusion = false;
  ReadBatch(settings, config);
  ReadZero(settings, config);
  ReadPrecision(settings, config);
  ReadRecompute(json, settings, config);
  settings.Whole("tensor_parallel.autotp_size", 0, 65'536, config.training.layout.tensor);
  if (config.training.layout.tensor == 0) config.training.layout.tensor = 1;
  for (const std::string_view name : kNotModelled) {
    if (settings.Has(name)) {
      config.unknown.push_back(std::string(name) + " (the planner has no figures for it)");
    }
  }
  config.passed_over = settings.PassOver(kPassedOver, config.unknown);
  RETURN_IF_ERROR(settings.status());
  return config;
}

}  // namespace longhaul::planner::configs::internal
