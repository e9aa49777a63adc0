#include "planner/time/software_stack.h"

#include <algorithm>
#include <cmath>
#include <initializer_list>
#include <optional>

namespace longhaul::planner {

namespace {

bool StartsWithAny(std::string_view text, std::initializer_list<std::string_view> starts) {
  return std::any_of(starts.begin(), starts.end(),
                     [&](std::string_view start) { return text.starts_with(start); });
}

// Releases named by year and month ("25.04", "v25.04.02", "2024-12") as months since 2000.
std::optional<int> MonthOf(std::string_view release) {
  if (release.starts_with("v")) release.remove_prefix(1);
  if (release.starts_with("20")) release.remove_prefix(2);
  if (release.size() < 5 || (release[2] != '.' && release[2] != '-')) return std::nullopt;
  for (const size_t i : {0u, 1u, 3u, 4u}) {
    if (release[i] < '0' || release[i] > '9') return std::nullopt;
  }
  const auto two = [&](size_t i) { return 10 * (release[i] - '0') + (release[i + 1] - '0'); };
  return 12 * two(0) + two(3);
}

constexpr int Month(int year, int month) { return 12 * year + month; }

bool Has(std::string_view text, std::initializer_list<std::string_view> words) {
  return std::any_of(words.begin(), words.end(), [&](std::string_view word) {
    return text.find(word) != std::string_view::npos;
  });
}

// Megatron-LM and DeepSpeed of 2021 and 2022: no flash attention of their own, blocking sends.
SoftwareStack EarlyStack(bool deepspeed, std::string_view release) {
  SoftwareStack stack;
  stack.overlaps_sends = false;
  stack.splits_sends = !deepspeed;
  stack.attention = AttentionKernels::kFirst;
  stack.shard_hidden = 0.6;
  stack.shard_bandwidth_share = 0.12;  // DeepSpeed's ZeRO-3: one small gather a parameter
  // Backward all-reduces beside weight gradients, and fused kernels, came with 2022.
  const bool beside = !deepspeed && release.starts_with("2022");
  if (!beside) stack.tensor_backward_hidden = 0;
  if (!deepspeed) stack.compute_factor = beside ? 0.93 : 0.958;
  return stack;
}

// Dispatch kernels that permute while they send a token once to a rank (DeepEP, HybridEP), and one
// kernel for all experts.
void UseFusedExperts(SoftwareStack& stack) {
  stack.groups_experts = true;
  stack.permute_share = 2.6;
  stack.merges_copies = true;
}

// PyTorch's sharded data parallelism and what is built on it, and JAX's.
SoftwareStack ShardedStack(std::string_view framework) {
  SoftwareStack stack;
  stack.attention = AttentionKernels::kSecond;
  stack.context_share = 0.81;  // PyTorch's ring: attention in pieces, merged in fp32
  if (Has(framework, {"foundry", "composer"})) {
    stack.attention = AttentionKernels::kFirst;
    stack.shard_hidden = 0.67;
    stack.shard_bandwidth_share = 0.6;
  } else if (Has(framework, {"titan"})) {
    stack.fused_kernels = false;  // unless compiled
    stack.compute_factor = 1.022;
  } else if (Has(framework, {"maxtext"})) {
    stack.attention = AttentionKernels::kNative;
    stack.compute_factor = 0.828;
  } else if (Has(framework, {"pax"})) {
    stack.attention = AttentionKernels::kNative;
    stack.compute_factor = 1.22;
  } else if (Has(framework, {"automodel"})) {
    // NVIDIA's PyTorch stack: Transformer Engine's kernels, DeepEP for experts.
    stack.attention = AttentionKernels::kNative;
    UseFusedExperts(stack);
    stack.adds_expert_bias = true;
    stack.consecutive_routing = true;  // FakeBalancedGate of its benchmarks
  } else {
    stack.fused_kernels = false;  // unless compiled
    stack.reduce_bytes = 2;       // PyTorch's usual mixed precision for bf16
    stack.shard_hidden = 0.7;
  }
  return stack;
}

// Containers of Megatron Bridge, whose experts changed most from release to release.
void SetBridgeRelease(std::optional<int> month, SoftwareStack& stack) {
  stack.compute_factor = 0.989;
  const int now = month.value_or(Month(26, 4));
  // Windows and learnt sinks came late to the GPUs' own kernels.
  stack.windowed_attention =
      now < Month(26, 6) ? AttentionKernels::kFirst : AttentionKernels::kSecond;
  // Its recipes set moe_a2a_overlap where an interleaved pipeline's experts span nodes.
  stack.overlaps_experts_across = true;
  stack.dispatch_month = now;
  stack.graphs_experts = now >= Month(25, 11);  // on racks: attention, router and dispatch
  stack.fuses_experts = now >= Month(26, 6);
}

// Everything on Megatron-Core.
SoftwareStack CoreStack(std::string_view framework, std::optional<int> month) {
  SoftwareStack stack;
  const bool bridge = Has(framework, {"bridge"});
  const bool nemo = Has(framework, {"nemo"});
  if (framework != "megatron-core" && !nemo) stack.permute_share = 2.22;
  if (framework == "megatron-core") stack.compute_factor = 1.045;
  if (nemo) {
    stack.compute_factor = 0.967;
    if (month && *month < Month(24, 9)) stack.attention = AttentionKernels::kSecond;
    stack.early_blackwell = month && *month < Month(25, 7);
  }
  if (bridge) SetBridgeRelease(month, stack);
  return stack;
}

}  // namespace

SoftwareStack StackFor(std::string_view framework, std::string_view release) {
  const bool early = StartsWithAny(release, {"v1", "v2.", "v3", "2019", "2020", "2021", "2022"});
  const bool deepspeed = Has(framework, {"deepspeed", "neox"});
  if (early && (deepspeed || framework == "megatron-lm")) return EarlyStack(deepspeed, release);
  if (Has(framework, {"foundry", "composer", "titan", "maxtext", "fsdp", "accelerate", "lightning",
                      "torchtune", "axolotl", "levanter", "axlearn", "pax", "automodel", "pytorch",
                      "trainer", "litgpt"})) {
    return ShardedStack(framework);
  }
  if (deepspeed) {
    SoftwareStack stack;
    stack.attention = AttentionKernels::kSecond;
    stack.splits_sends = false;
    stack.overlaps_sends = false;
    stack.shard_bandwidth_share = 0.35;
    return stack;
  }
  if (Has(framework, {"hai-llm", "deepseek"})) {
    SoftwareStack stack;
    // Its report (arXiv 2412.19437, section 3.2) hides all experts' traffic under the other
    // direction's compute, for 20 of 132 units; DeepGEMM runs all experts as one kernel. No row.
    stack.expert_hidden = 0.9;
    stack.overlaps_experts = true;
    stack.overlap_tax = 20.0 / 132;
    UseFusedExperts(stack);
    stack.low_experts_native = true;
    return stack;
  }
  return CoreStack(framework, MonthOf(release));
}

namespace {

// Which dispatcher Megatron Bridge's recipes chose (its scripts/performance/configs, v0.2.0 to
// v0.6.0): HybridEP on racks from the start, DeepEP or HybridEP elsewhere for many experts and
// later for all, NCCL's all-to-all for the rest.
void SetDispatch(uint32_t experts, bool blackwell, bool rack, SoftwareStack& stack) {
  constexpr uint32_t kMany = 128;
  const int month = stack.dispatch_month;
  const bool all = month >= (rack ? Month(25, 11) : Month(26, 6));
  const bool many = experts > kMany && month >= (blackwell ? Month(26, 2) : Month(25, 9));
  stack.merges_copies = all || many || (!blackwell && month >= Month(26, 2));
  stack.merges_with_tensor = blackwell ? all || many : many;
  if (!stack.merges_copies) stack.permute_share = month < Month(26, 2) ? 1.33 : 2.44;
}

}  // namespace

void FitToGpu(const spec::Model& model, const spec::Device& device, SoftwareStack& stack,
              DeviceMatrix& matrix) {
  const bool blackwell = IsBlackwell(device);
  if (stack.groups_experts) {
    matrix.grouped_share = 0.9;
    matrix.grouped_lost_waves = 0;
  }
  if (stack.low_experts_native) matrix.grouped_low_share = 1;
  const bool rack = device.name.ends_with("nvl72");
  if (stack.dispatch_month > 0 && model.experts) {
    SetDispatch(model.experts->count, blackwell, rack, stack);
  }
  matrix.permute_bytes_per_s *= stack.permute_share;
  if (!blackwell) {
    stack.windowed_attention = stack.attention;
    return;
  }
  if (stack.early_blackwell) {
    for (const spec::Precision precision : {spec::Precision::kFp8, spec::Precision::kMxfp8}) {
      matrix.products[static_cast<size_t>(precision)].sustained_flops_per_s *= 0.895;
    }
    // No fused kernel for heads of two widths: scores went through memory.
    matrix.attention.uneven_heads_forward *= 0.08;
    matrix.attention.uneven_heads_backward *= 0.08;
  }
  if (stack.fuses_experts && (rack || stack.dispatch_month >= Month(26, 8))) {
    matrix.low_expert_product_factor = 0.724;
    matrix.low_expert_stream_factor = 0.452;
  }
  if (!rack) return;
  if (stack.fuses_experts) {  // its MXFP8 recipes there: one graph a step, traffic overlapped
    stack.overlaps_low_experts = true;
    stack.graphs_low_steps = true;
  }
  // One thread of a Grace issues launches slower than one of the hosts beside the other GPUs.
  constexpr double kGraceSlowdown = 1.235;
  if (stack.graphs_experts) stack.expert_host_s = 0.7e-3;
  stack.launch_s *= kGraceSlowdown;
  stack.expert_host_s *= kGraceSlowdown;
  stack.expert_call_s *= kGraceSlowdown;
  matrix.permute_bytes_per_s *= 1.25;  // fitted; its dispatch kernels were tuned first
}

bool SplitsExperts(const spec::Software& software) {
  const std::optional<int> month = MonthOf(software.release);
  return Has(software.framework, {"nemo"}) && !Has(software.framework, {"automodel"}) && month &&
         *month <= Month(25, 4);
}

bool UsesApexOptimizer(const spec::Software& software) {
  // NeMo 1's megatron_base_model.py chose so; NVIDIA's benchmarks left it with 25.03.
  if (!Has(software.framework, {"nemo"}) || Has(software.framework, {"automodel"})) return false;
  const std::optional<int> month = MonthOf(software.release);
  return month && *month <= Month(25, 2);
}

bool PredictsTokens(const spec::Software& software) {
  const std::optional<int> month = MonthOf(software.release);
  return Has(software.framework, {"bridge"}) && month && *month >= Month(26, 2);
}

bool CompilesLoss(const spec::Software& software) {
  const std::optional<int> month = MonthOf(software.release);
  return Has(software.framework, {"titan"}) && month && *month >= Month(25, 1);
}

SoftwareStack StackOf(const spec::Software& software) {
  SoftwareStack stack = StackFor(software.framework, software.release);
  stack.compute_factor *= software.compute_factor;
  return stack;
}

}  // namespace longhaul::planner
