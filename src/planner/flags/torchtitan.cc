// torchtitan's TOML. Keys: torchtitan/config/job_config.py at the tags v0.2.0 and v0.2.2; flavors:
// torchtitan/models/*/__init__.py at v0.2.2, found here by their shape, never by a name.
#include <string>

#include "planner/flags/internal/writers.h"

namespace longhaul::planner::flags::internal {
namespace {

using spec::Layout;
using spec::Model;
using spec::PipelineSchedule;
using spec::Precision;
using spec::RecomputeKind;
using spec::Training;

struct Flavor {
  std::string_view model;
  std::string_view flavor;
  uint32_t layers, hidden, heads, kv_heads, experts;
};

constexpr Flavor kFlavors[] = {
    {"llama3", "8B", 32, 4096, 32, 8, 0},
    {"llama3", "70B", 80, 8192, 64, 8, 0},
    {"llama3", "405B", 126, 16384, 128, 8, 0},
    {"qwen3", "0.6B", 28, 1024, 16, 8, 0},
    {"qwen3", "1.7B", 28, 2048, 16, 8, 0},
    {"qwen3", "4B", 36, 2560, 32, 8, 0},
    {"qwen3", "8B", 36, 4096, 32, 8, 0},
    {"qwen3", "14B", 40, 5120, 40, 8, 0},
    {"qwen3", "32B", 64, 5120, 64, 8, 0},
    {"qwen3", "30B-A3B", 48, 2048, 32, 4, 128},
    {"qwen3", "235B-A22B", 94, 4096, 64, 4, 128},
    {"deepseek_v3", "16B", 27, 2048, 16, 16, 64},
    {"deepseek_v3", "236B", 60, 5120, 128, 128, 160},
    {"deepseek_v3", "671B", 61, 7168, 128, 128, 256},
};

const Flavor* FindFlavor(const Model& model) {
  for (const Flavor& flavor : kFlavors) {
    if (flavor.layers == model.layers && flavor.hidden == model.hidden &&
        flavor.heads == model.heads && flavor.kv_heads == model.kv_heads &&
        flavor.experts == (model.experts ? model.experts->count : 0)) {
      return &flavor;
    }
  }
  return nullptr;
}

std::string_view ScheduleName(const Layout& layout) {
  switch (layout.schedule) {
    case PipelineSchedule::kGpipe:
      return layout.virtual_pipeline == 1 ? "GPipe" : "";
    case PipelineSchedule::kOneForwardOneBackward:
      return layout.virtual_pipeline == 1 ? "1F1B" : "Interleaved1F1B";
    case PipelineSchedule::kZeroBubbleV:
      return layout.virtual_pipeline == 2 ? "ZBVZeroBubble" : "";
    case PipelineSchedule::kZeroBubbleH1:
    case PipelineSchedule::kDualPipe:
      return "";
  }
  return "";
}

// The modules of each stage and chunk by name, which is how torchtitan takes uneven stages.
std::string StageModules(const Layout& layout) {
  std::string text = "module_fqns_per_model_part = [\n";
  uint32_t layer = 0;
  for (size_t i = 0; i < layout.layers_per_stage.size(); ++i) {
    std::string names = i == 0 ? "\"tok_embeddings\"" : "";
    for (uint32_t k = 0; k < layout.layers_per_stage[i]; ++k, ++layer) {
      names += std::string(names.empty() ? "" : ", ") + "\"layers." + std::to_string(layer) + "\"";
    }
    if (i + 1 == layout.layers_per_stage.size()) {
      names += std::string(names.empty() ? "" : ", ") + "\"norm\", \"output\"";
    }
    text += "  [" + names + "],\n";
  }
  return text + "]\n";
}

std::string Line(std::string_view key, uint64_t value) {
  return std::string(key) + " = " + std::to_string(value) + "\n";
}

std::string ParallelismSection(const Question& question) {
  const Layout& layout = question.training.layout;
  const uint32_t shard = layout.zero_stage == 0 ? 1 : ShardGroup(layout);
  std::string text = "[parallelism]\n";
  text += Line("data_parallel_replicate_degree", layout.data / shard);
  text += Line("data_parallel_shard_degree", shard);
  if (layout.zero_stage > 0) {
    text += std::string("fsdp_reshard_after_forward = \"") +
            (layout.zero_stage == 3 ? "always" : "never") + "\"\n";
  }
  text += Line("tensor_parallel_degree", layout.tensor);
  if (question.training.software.overlap_tensor && layout.tensor > 1) {
    text += "enable_async_tensor_parallel = true\n";
  }
  text += Line("context_parallel_degree", layout.context);
  if (layout.context > 1) {
    text += std::string("context_parallel_rotate_method = \"") +
            (layout.context_kind == spec::ContextKind::kAllGather ? "allgather" : "alltoall") +
            "\"\n";
  }
  if (question.model.experts) {
    text += Line("expert_parallel_degree", layout.expert);
    text += Line("expert_tensor_parallel_degree", layout.expert_tensor);
  }
  text += Line("pipeline_parallel_degree", layout.pipeline);
  if (layout.pipeline > 1) {
    text += "pipeline_parallel_schedule = \"" + std::string(ScheduleName(layout)) + "\"\n";
    text += Line("pipeline_parallel_microbatch_size", question.training.batch.micro);
    if (layout.layers_per_stage.empty()) {
      text += Line("pipeline_parallel_layers_per_stage",
                   question.model.layers / (layout.pipeline * layout.virtual_pipeline));
      text += Line("pipeline_parallel_first_stage_less_layers", 0);
      text += Line("pipeline_parallel_last_stage_less_layers", 0);
    } else {
      text += StageModules(layout);
    }
  }
  return text;
}

// Experts' ranks lie inside one replica's shards and, in v0.2.0, hold whole context (and, where
// they are not split themselves, tensor) groups (distributed/parallel_dims.py).
Status CheckExperts(const Question& question) {
  const Layout& layout = question.training.layout;
  if (!question.model.experts) return {};
  if (layout.expert_tensor != 1 && layout.expert_tensor != layout.tensor) {
    return Unimplemented("torchtitan takes an expert tensor size of 1 or that of tensor");
  }
  if (layout.expert == 1) return {};
  if (question.training.software.overlap_expert) {
    return Unimplemented(
        "torchtitan has no key to overlap the exchange of experts' tokens: use "
        "overlap_expert=false");
  }
  const uint32_t shard = layout.zero_stage == 0 ? 1 : ShardGroup(layout);
  const bool split = layout.expert_tensor == layout.tensor;
  const uint64_t group = uint64_t{layout.context} * (split ? 1 : layout.tensor);
  if (uint64_t{shard} * group % layout.expert == 0 && layout.expert % group == 0) return {};
  return Unimplemented("torchtitan cannot place expert " + std::to_string(layout.expert) +
                       ": it must divide " + std::to_string(shard * group) + " (shards x context" +
                       (split ? "" : " x tensor") + ") and be a multiple of " +
                       std::to_string(group));
}

}  // namespace

Status CheckTorchtitan(const Question& question) {
  const Training& training = question.training;
  const Layout& layout = training.layout;
  if (!SamePlaces(layout, spec::kUsualOrder)) {
    return Unimplemented(
        "torchtitan places tensor, context, data and pipeline in this order and no other");
  }
  if (layout.zero_stage == 1) {
    return Unimplemented("torchtitan does not shard the optimizer alone: use ZeRO stage 0, 2 or 3");
  }
  if (layout.pipeline > 1 && ScheduleName(layout).empty()) {
    return Unimplemented(
        "torchtitan has no schedule of this kind: use 1F1B (interleaved or not), GPipe, or ZB-V "
        "with two chunks a rank");
  }
  if (layout.pipeline > 1 && layout.layers_per_stage.empty() &&
      question.model.layers % (layout.pipeline * layout.virtual_pipeline) != 0) {
    return Unimplemented("stages are uneven: give layers_per_stage to write them for torchtitan");
  }
  if (layout.context > 1 && layout.context_kind == spec::ContextKind::kAllToAll) {
    return Unimplemented("torchtitan splits attention by ring or all-gather, not by heads");
  }
  if (layout.tensor > 1 && !layout.sequence_parallel) {
    return Unimplemented("torchtitan's tensor dimension always splits the sequence too");
  }
  RETURN_IF_ERROR(CheckExperts(question));
  if (training.recompute.full_layers > 0 || training.recompute.modules.any()) {
    return Unimplemented("torchtitan cannot choose these modules to recompute: use none or full");
  }
  if (training.offload != spec::Offload::kNone) {
    return Unimplemented("torchtitan offloads weights, gradients and optimizer only together");
  }
  if (training.precision != Precision::kBf16 && training.precision != Precision::kFp32 &&
      training.precision != Precision::kFp8) {
    return Unimplemented("written for torchtitan in bf16, fp32 and fp8 only");
  }
  return {};
}

Launch WriteTorchtitan(const Question& question) {
  const Training& training = question.training;
  const Flavor* flavor = FindFlavor(question.model);
  Launch launch;
  std::string& text = launch.text;
  text = "# " + CommentName(question.model) + " on " + std::to_string(question.cluster.devices) +
         " devices, for " + std::string(Releases(Framework::kTorchtitan)) + ".\n[model]\n";
  if (flavor != nullptr) {
    text += "name = \"" + std::string(flavor->model) + "\"\nflavor = \"" +
            std::string(flavor->flavor) + "\"\n";
  } else {
    text += "flavor = \"custom\"\n";
    launch.notes.push_back("torchtitan ships no flavor of this shape: register one as \"custom\"");
  }
  if (training.precision == Precision::kFp8) text += "converters = [\"quantize.linear.float8\"]\n";
  const uint64_t local = training.layout.pipeline > 1
                             ? uint64_t{training.batch.micro} * MicroBatches(training)
                             : training.batch.micro;
  text += "\n[training]\n" + Line("seq_len", question.model.sequence_length) +
          Line("local_batch_size", local) + Line("global_batch_size", training.batch.global);
  if (training.precision == Precision::kFp32) text += "mixed_precision_param = \"float32\"\n";
  text += "\n" + ParallelismSection(question);
  text += "\n[activation_checkpoint]\n";
  switch (training.recompute.kind) {
    case RecomputeKind::kByStage:  // refused before
    case RecomputeKind::kNone:
      text += "mode = \"none\"\n";
      break;
    case RecomputeKind::kSelective:
      text += "mode = \"selective\"\nselective_ac_option = \"op\"\n";
      break;
    case RecomputeKind::kFull:
      text += "mode = \"full\"\n";
      break;
  }
  text += std::string("\n[compile]\nenable = ") + (training.software.compiled ? "true" : "false") +
          "\n";
  launch.notes.push_back(
      "start torchrun on " + std::to_string(Nodes(question.cluster)) + " nodes with " +
      std::to_string(question.cluster.devices_per_node) +
      " processes each: torchrun ... -m torchtitan.train --job.config_file THIS");
  return launch;
}

}  // namespace longhaul::planner::flags::internal
