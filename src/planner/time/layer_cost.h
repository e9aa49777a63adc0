// Seconds, parameters and FLOPs of one layer (or the embedding, or the loss) on one rank for one
// micro-batch: its operators on the GPU, and the part of its collectives for which compute waits.
//
// The cost depends on few of a layout's figures (LayerKey), so the evaluator computes each once and
// assembles stages from the parts. Tensor parallelism is Megatron's (arXiv 2205.05198): without
// sequence parallelism two all-reduces each way, with it an all-gather and a reduce-scatter around
// each pair of matmuls; backward collectives run beside weight gradients. Context parallelism is a
// ring hidden under attention, an all-to-all or an all-gather; experts are reached by all-to-all.
#pragma once

#include "planner/time/collective_cost.h"
#include "planner/time/device_matrix.h"
#include "planner/time/software_stack.h"
#include "spec/model/training.h"

namespace longhaul::planner {

struct LayerCost {
  double forward_s = 0;
  double backward_s = 0;         // without recompute
  double weight_gradient_s = 0;  // of backward, the part that zero-bubble schedules move
  double recompute_s = 0;        // forward executed again, with its collectives
  double tensor_forward_s = 0;   // exposed
  double tensor_backward_s = 0;
  double context_forward_s = 0;
  double context_backward_s = 0;
  double expert_forward_s = 0;
  double expert_backward_s = 0;
  double forward_kernels = 0;
  double backward_kernels = 0;  // with recompute
  double forward_host_s = 0;    // beside launches: host work before the next kernel
  double backward_host_s = 0;
  double dense_parameters = 0;  // on this rank
  double expert_parameters = 0;
  double model_flops = 0;     // forward; a step counts three times that
  double executed_flops = 0;  // forward and backward as MFU counts them, and the recompute

  double forward_total_s() const {
    return forward_s + tensor_forward_s + context_forward_s + expert_forward_s;
  }
  double backward_total_s() const {
    return backward_s + recompute_s + tensor_backward_s + context_backward_s + expert_backward_s;
  }
};

enum class LayerRole { kLayer, kEmbedding, kLoss };

struct LayerKey {
  LayerRole role = LayerRole::kLayer;
  spec::LayerKind kind;
  spec::LayerSlice slice;
  spec::Precision precision = spec::Precision::kBf16;
  spec::RecomputeKind recompute = spec::RecomputeKind::kNone;
  spec::RecomputeModules modules;
  spec::ContextKind context_kind = spec::ContextKind::kRing;
  bool overlap_tensor = false;
  bool overlap_expert = false;
  bool dual_pipe = false;  // the schedule pairs micro-batches of both directions
  bool interleaved =
      false;  // several chunks of layers per rank, so that micro-batches can interleave
  // GPUs between neighbours of each group (time/placement.h).
  uint32_t tensor_stride = 1;
  uint32_t context_stride = 1;
  uint32_t expert_stride = 1;

  friend bool operator==(const LayerKey&, const LayerKey&) = default;
};

LayerCost CostOf(const spec::Model& model, const DeviceMatrix& matrix, const Links& links,
                 const SoftwareStack& stack, const LayerKey& key);

}  // namespace longhaul::planner
