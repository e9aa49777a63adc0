// How a model is trained: layout, batch, recompute, precision of states, software stack.
//
// Terms are Megatron's where frameworks disagree. Dimensions multiply:
//   devices = data * tensor * pipeline * context
// and expert groups lie inside data * context * tensor (expert * expert_tensor divides it).
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/status.h"
#include "spec/cluster/device.h"
#include "spec/model/model.h"

namespace longhaul::spec {

enum class PipelineSchedule {
  kGpipe,
  kOneForwardOneBackward,
  kZeroBubbleH1,
  kZeroBubbleV,
  kDualPipe
};
enum class ContextKind { kRing, kAllToAll, kAllGather };

enum class Dimension : uint8_t { kTensor, kContext, kData, kPipeline };

// The order in which the dimensions fill GPUs, hosts and leaves: neighbours of the first one are
// adjacent. Megatron's own order, with pipeline outermost, is the default.
using PlacementOrder = std::array<Dimension, 4>;
constexpr PlacementOrder kUsualOrder = {Dimension::kTensor, Dimension::kContext, Dimension::kData,
                                        Dimension::kPipeline};

struct Layout {
  uint32_t tensor = 1;
  uint32_t pipeline = 1;
  uint32_t virtual_pipeline = 1;  // model chunks a rank: interleaved where above 1
  uint32_t context = 1;
  uint32_t expert = 1;
  uint32_t expert_tensor = 1;
  uint32_t data = 1;  // replicas; ZeRO and FSDP shard over them
  bool sequence_parallel = false;
  uint32_t zero_stage = 0;   // 1 optimizer, 2 and gradients, 3 and weights (FSDP)
  uint32_t shard_group = 0;  // ranks that share one copy of the states (HSDP); 0: all replicas
  PipelineSchedule schedule = PipelineSchedule::kOneForwardOneBackward;
  ContextKind context_kind = ContextKind::kRing;
  // One entry for each stage and chunk, in the model's order; empty: the planner's rule.
  std::vector<uint32_t> layers_per_stage{};
  PlacementOrder order = kUsualOrder;

  uint32_t size(Dimension dimension) const {
    switch (dimension) {
      case Dimension::kTensor:
        return tensor;
      case Dimension::kContext:
        return context;
      case Dimension::kData:
        return data;
      case Dimension::kPipeline:
        return pipeline;
    }
    return 1;
  }
  // GPUs between neighbours of the dimension: the product of the dimensions placed before it.
  uint64_t stride(Dimension dimension) const {
    uint64_t gpus = 1;
    for (const Dimension placed : order) {
      if (placed == dimension) break;
      gpus *= size(placed);
    }
    return gpus;
  }
  uint64_t devices() const { return uint64_t{data} * tensor * pipeline * context; }

  friend bool operator==(const Layout&, const Layout&) = default;
};

struct Batch {
  uint32_t global = 0;  // sequences a step
  uint32_t micro = 1;   // sequences that a replica computes at once; need not divide

  friend bool operator==(const Batch&, const Batch&) = default;
};

enum class RecomputeKind { kNone, kSelective, kFull, kByStage };

// The modules whose tensors selective recompute does not keep in memory; several may be on.
struct RecomputeModules {
  bool core_attention = false;
  bool layer_norm = false;
  bool moe_activation = false;  // the experts' activation function
  bool mla_up_projection = false;
  bool mlp = false;
  bool moe = false;

  bool any() const {
    return core_attention || layer_norm || moe_activation || mla_up_projection || mlp || moe;
  }
  friend bool operator==(const RecomputeModules&, const RecomputeModules&) = default;
};

struct Recompute {
  RecomputeKind kind = RecomputeKind::kNone;
  RecomputeModules modules;  // of kSelective
  uint32_t full_layers = 0;  // of kFull: layers of each stage recomputed; 0: all

  friend bool operator==(const Recompute&, const Recompute&) = default;
};

// The next layers of a pipeline stage, in the model's order, with one choice for each of them.
struct RecomputeRun {
  uint32_t stage = 0;
  uint32_t layers = 0;
  RecomputeKind kind = RecomputeKind::kNone;  // not kByStage
  RecomputeModules modules;

  friend bool operator==(const RecomputeRun&, const RecomputeRun&) = default;
};

enum class Offload { kNone, kOptimizer, kActivations };

// The properties of the stack that determine time or memory. A release is an input: the same run
// differs by 5.5 % (median) between successive releases of one framework.
struct Software {
  std::string framework;  // "megatron-core", "torchtitan", "longhaul", ...
  std::string release;
  bool flash_attention = true;
  bool fused_kernels = true;  // fused norms, activations, rotary
  bool compiled = false;
  bool cuda_graphs = false;
  bool loss_fusion = true;
  bool gradient_accumulation_fusion = true;
  bool deterministic = false;
  bool overlap_gradient = true;
  bool overlap_parameter = true;
  bool overlap_tensor = false;
  bool overlap_expert = false;
  // Bytes per parameter of the accumulated gradient, and of the optimizer's states.
  uint32_t gradient_bytes = 4;
  uint32_t moment_bytes = 4;  // of each of the two
  // Factor on the device time of all kernels, as `longhaul calibrate --fit` fits it for a stack.
  double compute_factor = 1;

  friend bool operator==(const Software&, const Software&) = default;
};

struct Training {
  Layout layout;
  Batch batch;
  Recompute recompute;
  // For kByStage: by ascending stage; layers that no entry covers keep everything.
  std::vector<RecomputeRun> stage_recompute{};
  Precision precision = Precision::kBf16;
  Offload offload = Offload::kNone;
  Software software;
};

// Rejects a training that cannot run: dimensions that do not multiply to the devices, tensor that
// does not divide heads or FFN, more stages than layers, expert that does not divide the experts,
// ... The message has one line for each mistake, with the two figures and a valid value.
Status CheckTraining(const Model& model, const DeviceCluster& cluster, const Training& training);

}  // namespace longhaul::spec
