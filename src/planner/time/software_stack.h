// The time that a framework and its release add to the GPU's own time.
//
// One set of constants per framework family, and a factor for a release where published runs of
// several releases of one configuration differ (5.5 % median between successive releases). Nothing
// here depends on a model, a cluster or a source. Leaves out factors that a user can measure:
// `calibrate --fit` replaces `compute_factor`.
#pragma once

#include <string_view>

#include "planner/time/device_matrix.h"
#include "spec/model/training.h"

namespace longhaul::planner {

struct SoftwareStack {
  double compute_factor = 1;    // device time of all kernels
  double launch_s = 6e-6;       // host time of one kernel through the framework
  double step_fixed_s = 0.02;   // host work per step: data, optimizer's launches, logging
  double tensor_hidden = 0.80;  // share of tensor collectives hidden where split matmuls overlap
  double tensor_backward_hidden = 0.53;  // of those beside a weight gradient without split matmuls
  double gradient_hidden = 0.9;  // share of the last backward that gradient traffic hides under
  double shard_hidden = 0.85;    // the same for a layer under FSDP
  double overlap_tax = 0.138;    // compute slows by this share while a collective runs
  double straggle = 0.006;       // sigma of a node's step
  // Share of experts' traffic hidden under another micro-batch's compute, where two are interleaved
  // for this; and whether recipes do so by default: for interleaved pipelines whose expert group
  // leaves its island, or always.
  double expert_hidden = 0.543;
  bool overlaps_experts_across = false;
  bool overlaps_experts = false;
  bool overlaps_low_experts = false;  // always with matmuls below two bytes
  double chunk_message_s = 0;         // of an interleaved schedule's message, beyond its bytes
  // DeepEP, HybridEP: a token crosses to an island once and to a rank once, for any number of its
  // experts there. NCCL's all-to-all sends a copy for each.
  bool merges_copies = false;
  bool merges_with_tensor = true;    // also where tensor parallelism splits the tokens
  bool consecutive_routing = false;  // its forced balance routes a token to neighbouring experts
  bool early_blackwell = false;      // its first kernels: fp8, heads of two widths
  bool overlaps_sends = true;        // interleaved schedules hide sends under compute
  bool splits_sends = true;          // each tensor rank sends its share of an activation
  // Host time of an expert layer's forward beyond its launches, twice that in backward: counts are
  // copied back to the host, and each expert on the rank has its own calls. Halved where a capacity
  // fixes the counts.
  double expert_host_s = 1.9e-3;
  double expert_call_s = 62e-6;
  bool adds_expert_bias = false;  // experts' biases are added outside their matmuls
  bool groups_experts = false;    // one launch for all experts' matmuls on every GPU
  double permute_share = 1;       // of the GPU's rate; above 1 where dispatch kernels permute too
  bool fused_kernels = true;      // norms, activations and rotary are single kernels
  // The share of the links' bandwidth that parameters gathered layer by layer reach.
  double shard_bandwidth_share = 1;
  double reduce_bytes = 0;   // of a gradient in a reduce-scatter; 0: as stored
  double context_share = 1;  // rate of attention in pieces against the whole
  AttentionKernels attention = AttentionKernels::kNative;
  // For models with sliding windows, on Blackwell.
  AttentionKernels windowed_attention = AttentionKernels::kNative;
  bool graphs_experts = false;      // on racks: CUDA graphs over most of an expert layer
  bool graphs_low_steps = false;    // on racks: the whole step, with matmuls below two bytes
  bool low_experts_native = false;  // DeepGEMM: experts in fp8 have no extra cost for scales
  bool fuses_experts = false;       // on racks, below two bytes: one kernel for an expert's FFN
  int dispatch_month = 0;           // of Megatron Bridge's recipes
};

// Adjusts both for the properties of a stack that depend on the GPU's generation and its host.
void FitToGpu(const spec::Model& model, const spec::Device& device, SoftwareStack& stack,
              DeviceMatrix& matrix);

SoftwareStack StackFor(std::string_view framework, std::string_view release);
// Whether the release splits every expert over the tensor group, regardless of a published table.
bool SplitsExperts(const spec::Software& software);
// Whether its recipes shard the states of dense models by Apex: the master copy is the 16 bits that
// bf16 weights lack, moments may be bf16.
bool UsesApexOptimizer(const spec::Software& software);
// Whether its recipes train the extra prediction layers of a published model.
bool PredictsTokens(const spec::Software& software);
// Whether its compiled runs also have the loss in one kernel.
bool CompilesLoss(const spec::Software& software);
// The same with the user's own fitted factor.
SoftwareStack StackOf(const spec::Software& software);

}  // namespace longhaul::planner
