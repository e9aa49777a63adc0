// Megatron-LM's pretrain_gpt.py. Option names and their rules: megatron/training/arguments.py at
// the tags core_v0.14.0, v0.15.3, v0.16.1, v0.17.0, v0.18.0 and v0.19.0, whose parse_args and
// validate_args took what is written for 23 layouts (without a GPU).
#include <string>
#include <vector>

#include "planner/flags/internal/writers.h"

namespace longhaul::planner::flags::internal {
namespace {

using spec::Layout;
using spec::Model;
using spec::Precision;
using spec::RecomputeKind;
using spec::Training;

void AddShape(const Model& model, Options& options) {
  options.Value("--num-layers", model.layers);
  options.Value("--hidden-size", model.hidden);
  if (model.ffn_hidden > 0) options.Value("--ffn-hidden-size", model.ffn_hidden);
  options.Value("--num-attention-heads", model.heads);
  if (model.multi_latent) {
    options.Flag("--multi-latent-attention");
    if (model.multi_latent->query_rank > 0) {
      options.Value("--q-lora-rank", model.multi_latent->query_rank);
    }
    options.Value("--kv-lora-rank", model.multi_latent->kv_rank);
    options.Value("--qk-head-dim", model.multi_latent->qk_nope_dim);
    options.Value("--qk-pos-emb-head-dim", model.multi_latent->qk_rope_dim);
    options.Value("--v-head-dim", model.multi_latent->v_dim);
    options.Flag("--qk-layernorm");  // of the compressed queries, keys and values
  } else {
    options.Value("--kv-channels", model.head_dim);
    if (model.kv_heads != model.heads) {
      options.Flag("--group-query-attention");
      options.Value("--num-query-groups", model.kv_heads);
    }
  }
  options.Value("--seq-length", model.sequence_length);
  options.Value("--max-position-embeddings", model.sequence_length);
  // Decides nothing where a tokenizer does; `plan --from megatron` reads it back.
  options.Value("--vocab-size", model.vocabulary);
  options.Value("--position-embedding-type",
                model.position == spec::Position::kRope ? "rope" : "learned_absolute");
  options.Value("--normalization",
                model.normalization == spec::Normalization::kRms ? "RMSNorm" : "LayerNorm");
  options.FlagIf(model.gated_ffn && model.activation == spec::Activation::kSilu, "--swiglu");
  options.FlagIf(model.activation == spec::Activation::kSquaredRelu, "--squared-relu");
  options.FlagIf(!model.tied_embeddings, "--untie-embeddings-and-output-weights");
  options.FlagIf(!model.bias, "--disable-bias-linear");
  options.FlagIf(model.qkv_bias && !model.bias, "--add-qkv-bias");
  options.FlagIf(model.qk_norm && !model.multi_latent, "--qk-layernorm");
  if (!model.dropout) {
    options.Value("--attention-dropout", "0.0");
    options.Value("--hidden-dropout", "0.0");
  }
  if (model.multi_token_prediction_layers > 0) {
    options.Value("--mtp-num-layers", model.multi_token_prediction_layers);
  }
}

// "([0]*3+[1]*58)", or with every second layer "([0]*1+[0]*1+[1]*1...)": 1 where a layer has
// experts.
std::string ExpertLayers(const Model& model) {
  std::string text;
  for (uint32_t layer = 0; layer < model.layers;) {
    const bool experts = model.has_experts(layer);
    uint32_t end = layer;
    while (end < model.layers && model.has_experts(end) == experts) ++end;
    text += std::string(text.empty() ? "(" : "+") + "[" + (experts ? "1" : "0") + "]*" +
            std::to_string(end - layer);
    layer = end;
  }
  return text + ")";
}

void AddExperts(const Model& model, const Training& training, Options& options) {
  if (!model.experts) return;
  const spec::Experts& experts = *model.experts;
  options.Value("--num-experts", experts.count);
  options.Value("--moe-router-topk", experts.top_k);
  options.Value("--moe-ffn-hidden-size", experts.ffn_hidden);
  if (experts.shared > 0) {
    options.Value("--moe-shared-expert-intermediate-size",
                  uint64_t{experts.shared} * experts.shared_ffn_hidden);
  }
  if (experts.dense_first_layers > 0 || experts.every > 1) {
    options.Value("--moe-layer-freq", ExpertLayers(model));
  }
  if (experts.router_bias) {
    options.Value("--moe-router-score-function", "sigmoid");  // the only one with a bias
    options.Flag("--moe-router-enable-expert-bias");
  }
  if (experts.groups > 1) {
    options.Value("--moe-router-num-groups", experts.groups);
    options.Value("--moe-router-group-topk", experts.groups_top_k);
  }
  options.FlagIf(experts.balanced, "--moe-router-force-load-balancing");
  options.Flag("--moe-grouped-gemm");
  options.Value("--moe-token-dispatcher-type", "alltoall");
  if (experts.capacity_factor) {
    options.Value("--moe-expert-capacity-factor", std::to_string(*experts.capacity_factor));
  }
  options.Value("--expert-model-parallel-size", training.layout.expert);
  options.Value("--expert-tensor-parallel-size", training.layout.expert_tensor);
  options.FlagIf(training.software.overlap_expert && training.layout.expert > 1,
                 "--overlap-moe-expert-parallel-comm");
}

// Stages in Megatron's own letters: "Et*3|t*4|t*2L" (E the embedding, t a layer, L the loss).
// The embedding, the prediction layers and the loss are not counted in `layers_per_stage`, and have
// fixed places at the two ends.
std::string StageLetters(const Model& model, const Layout& layout) {
  std::string text = "E";
  for (size_t i = 0; i < layout.layers_per_stage.size(); ++i) {
    if (i > 0) text += "|";
    const uint32_t layers = layout.layers_per_stage[i];
    if (layers > 0) text += layers == 1 ? "t" : "t*" + std::to_string(layers);
  }
  for (uint32_t i = 0; i < model.multi_token_prediction_layers; ++i) text += "m";
  return text + "L";
}

void AddStages(const Model& model, const Layout& layout, Options& options) {
  options.Value("--pipeline-model-parallel-size", layout.pipeline);
  if (layout.pipeline == 1) return;
  if (!layout.layers_per_stage.empty()) {
    options.Value("--pipeline-model-parallel-layout", StageLetters(model, layout));
    return;
  }
  const uint32_t chunks = layout.pipeline * layout.virtual_pipeline;
  if (layout.virtual_pipeline > 1) {
    options.Value("--num-virtual-stages-per-pipeline-rank", layout.virtual_pipeline);
  }
  if (model.layers % chunks == 0) return;
  options.FlagIf((model.layers + 2) % chunks == 0, "--account-for-embedding-in-pipeline-split");
  options.Flag("--account-for-loss-in-pipeline-split");
}

void AddStates(const Training& training, Options& options) {
  const Layout& layout = training.layout;
  const bool sharded = layout.zero_stage >= 2;
  if (sharded) {
    options.Flag("--use-megatron-fsdp");
    options.Value("--data-parallel-sharding-strategy",
                  layout.zero_stage == 2 ? "optim_grads" : "optim_grads_params");
    options.Value("--ckpt-format", "fsdp_dtensor");
  }
  options.FlagIf(layout.zero_stage >= 1, "--use-distributed-optimizer");
  if (layout.zero_stage >= 1 && ShardGroup(layout) != layout.data) {
    options.Value("--num-distributed-optimizer-instances", layout.data / ShardGroup(layout));
  }
  options.FlagIf(training.software.overlap_gradient && layout.data > 1, "--overlap-grad-reduce");
  options.FlagIf(training.software.overlap_parameter && layout.zero_stage >= 1 && layout.data > 1,
                 "--overlap-param-gather");
  options.FlagIf(training.software.gradient_bytes == 2, "--grad-reduce-in-bf16");
  options.FlagIf(!training.software.gradient_accumulation_fusion || sharded,
                 "--no-gradient-accumulation-fusion");
  const bool short_moments = training.software.moment_bytes == 2;
  const bool offload = training.offload == spec::Offload::kOptimizer;
  options.FlagIf(short_moments || offload, "--use-precision-aware-optimizer");
  if (short_moments) {
    options.Value("--exp-avg-dtype", "bf16");
    options.Value("--exp-avg-sq-dtype", "bf16");
  }
  options.FlagIf(offload, "--optimizer-cpu-offload");
}

void AddRecompute(const Training& training, Options& options) {
  const spec::Recompute& recompute = training.recompute;
  if (recompute.kind == RecomputeKind::kNone) return;
  options.Value("--recompute-granularity",
                recompute.kind == RecomputeKind::kFull ? "full" : "selective");
  if (recompute.kind == RecomputeKind::kFull) {
    options.Value("--recompute-method", recompute.full_layers == 0 ? "uniform" : "block");
    options.Value("--recompute-num-layers", recompute.full_layers == 0 ? 1 : recompute.full_layers);
    return;
  }
  std::vector<std::string> modules;
  const auto add = [&modules](bool wanted, std::string_view name) {
    if (wanted) modules.emplace_back(name);
  };
  add(recompute.modules.core_attention, "core_attn");
  add(recompute.modules.layer_norm, "layernorm");
  add(recompute.modules.moe_activation, "moe_act");
  add(recompute.modules.mla_up_projection, "mla_up_proj");
  add(recompute.modules.mlp, "mlp");
  add(recompute.modules.moe, "moe");
  if (!modules.empty()) options.List("--recompute-modules", modules);
}

void AddPrecision(const Training& training, Options& options) {
  options.FlagIf(training.precision == Precision::kFp16, "--fp16");
  options.FlagIf(training.precision != Precision::kFp16 && training.precision != Precision::kFp32,
                 "--bf16");
  if (training.precision == Precision::kFp8) {
    options.Value("--fp8-format", "hybrid");
    options.Value("--fp8-recipe", "tensorwise");
  }
  if (training.precision == Precision::kMxfp8) {
    options.Value("--fp8-format", "e4m3");
    options.Value("--fp8-recipe", "mxfp8");
  }
}

constexpr spec::PlacementOrder kPipelineInside = {
    spec::Dimension::kTensor, spec::Dimension::kContext, spec::Dimension::kPipeline,
    spec::Dimension::kData};

std::string_view ContextKindName(spec::ContextKind kind) {
  switch (kind) {
    case spec::ContextKind::kRing:
      return "p2p";
    case spec::ContextKind::kAllToAll:
      return "a2a";
    case spec::ContextKind::kAllGather:
      return "allgather";
  }
  return "p2p";
}

// What --overlap-moe-expert-parallel-comm requires (transformer_config.py, from core_v0.14.0 on).
Status CheckExpertOverlap(const Question& question) {
  const Training& training = question.training;
  const Layout& layout = training.layout;
  if (!training.software.overlap_expert || !question.model.experts) return {};
  constexpr std::string_view kOption = "Megatron-LM's --overlap-moe-expert-parallel-comm ";
  if (layout.expert == 1) {
    return Unimplemented(std::string(kOption) + "needs an expert size of 2 or more");
  }
  if (layout.pipeline > 1 && layout.virtual_pipeline == 1) {
    return Unimplemented(std::string(kOption) +
                         "needs several chunks a rank where there is a pipeline: set "
                         "virtual_pipeline to 2 or more");
  }
  if (training.recompute.kind == RecomputeKind::kFull || training.recompute.modules.moe) {
    return Unimplemented(std::string(kOption) +
                         "cannot recompute whole layers or experts: choose other modules");
  }
  if (training.precision == Precision::kFp32) {
    return Unimplemented(std::string(kOption) + "needs weights in bf16 or fp16");
  }
  if (question.model.multi_token_prediction_layers > 1) {
    return Unimplemented(std::string(kOption) + "takes one extra prediction layer at most");
  }
  return {};
}

Status CheckModelShape(const Model& model) {
  if (model.position == spec::Position::kAlibi) {
    return Unimplemented("Megatron-LM has no option for ALiBi positions: use rope or learned ones");
  }
  if (model.sliding_window) {
    return Unimplemented(
        "Megatron-LM core_v0.14 has no option for a sliding window (--window-size came later): "
        "leave the window out, or write the flags by hand");
  }
  if (model.gated_ffn && model.activation != spec::Activation::kSilu) {
    return Unimplemented("Megatron-LM's options have no gated FFN but SwiGLU: use silu");
  }
  return {};
}

}  // namespace

Status CheckMegatron(const Question& question) {
  RETURN_IF_ERROR(CheckModelShape(question.model));
  RETURN_IF_ERROR(CheckExpertOverlap(question));
  const Training& training = question.training;
  const Layout& layout = training.layout;
  if (layout.pipeline > 1 && layout.schedule != spec::PipelineSchedule::kOneForwardOneBackward) {
    return Unimplemented(
        "Megatron-LM has no option for this pipeline schedule: it runs 1F1B, interleaved or not");
  }
  if (layout.zero_stage >= 2 && (layout.pipeline > 1 || training.precision == Precision::kFp16)) {
    return Unimplemented(
        "Megatron-LM shards gradients and weights (--use-megatron-fsdp) without pipeline and in "
        "bf16: use ZeRO stage 1, or pipeline 1");
  }
  if (training.offload == spec::Offload::kActivations) {
    return Unimplemented("Megatron-LM core_v0.14 has no option to offload activations");
  }
  if (training.offload == spec::Offload::kOptimizer && layout.zero_stage == 0) {
    return Unimplemented("Megatron-LM offloads a distributed optimizer only: use ZeRO stage 1");
  }
  if (!SamePlaces(layout, spec::kUsualOrder) && !SamePlaces(layout, kPipelineInside)) {
    return Unimplemented(
        "Megatron-LM places tensor, context, data, pipeline in this order, or pipeline before data "
        "(--use-tp-pp-dp-mapping), and no other");
  }
  if (training.precision == Precision::kNvfp4) {
    return Unimplemented("Megatron-LM core_v0.14 has no option for NVFP4 (--fp4-format is newer)");
  }
  const uint32_t chunks = layout.pipeline * layout.virtual_pipeline;
  const uint32_t layers = question.model.layers;
  if (layout.layers_per_stage.empty() && layers % chunks != 0 && (layers + 1) % chunks != 0 &&
      (layers + 2) % chunks != 0) {
    return Unimplemented(std::to_string(layers) + " layers do not spread over " +
                         std::to_string(chunks) +
                         " stages by Megatron-LM's rules: give layers_per_stage");
  }
  return {};
}

Options MegatronOptions(const Question& question) {
  const Training& training = question.training;
  const Layout& layout = training.layout;
  Options options;
  options.Flag("--use-mcore-models");
  AddShape(question.model, options);
  AddExperts(question.model, training, options);
  options.Value("--tensor-model-parallel-size", layout.tensor);
  options.FlagIf(layout.sequence_parallel && layout.tensor > 1, "--sequence-parallel");
  options.FlagIf(training.software.overlap_tensor && layout.tensor > 1, "--tp-comm-overlap");
  AddStages(question.model, layout, options);
  options.FlagIf(!SamePlaces(layout, spec::kUsualOrder), "--use-tp-pp-dp-mapping");
  options.Value("--context-parallel-size", layout.context);
  if (layout.context > 1) options.Value("--cp-comm-type", ContextKindName(layout.context_kind));
  AddStates(training, options);
  options.Value("--micro-batch-size", training.batch.micro);
  options.Value("--global-batch-size", training.batch.global);
  AddRecompute(training, options);
  AddPrecision(training, options);
  options.Value("--attention-backend", training.software.flash_attention ? "flash" : "unfused");
  options.FlagIf(training.software.loss_fusion, "--cross-entropy-loss-fusion");
  options.FlagIf(training.software.deterministic, "--deterministic-mode");
  return options;
}

std::string MegatronConnections(const Question& question) {
  const Training& training = question.training;
  if (training.layout.zero_stage >= 2) return "8";
  const bool exchange = question.model.experts && training.software.overlap_expert;
  return exchange && training.layout.expert > 1 ? "32" : "1";
}

Launch WriteMegatron(const Question& question) {
  Launch launch;
  launch.text = "#!/usr/bin/env bash\n# " + CommentName(question.model) + " on " +
                std::to_string(question.cluster.devices) + " devices, for " +
                std::string(Releases(Framework::kMegatron)) +
                ".\n# Data, tokenizer, learning rate and checkpoints are yours to add: \"$@\".\n"
                "export CUDA_DEVICE_MAX_CONNECTIONS=" +
                MegatronConnections(question) +
                "\ntorchrun --nnodes=" + std::to_string(Nodes(question.cluster)) +
                " --nproc-per-node=" + std::to_string(question.cluster.devices_per_node) +
                " --rdzv-backend=c10d --rdzv-endpoint=\"$MASTER_ADDR:$MASTER_PORT\" \\\n"
                "  pretrain_gpt.py \\\n" +
                MegatronOptions(question).Lines();
  launch.text.insert(launch.text.size() - 1, " \\\n  \"$@\"");
  launch.notes.push_back("set MASTER_ADDR and MASTER_PORT and run it on every node");
  return launch;
}

}  // namespace longhaul::planner::flags::internal
