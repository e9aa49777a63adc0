#include "planner/time/software_stack.h"

#include <algorithm>
#include <cmath>
#include <initializer_list>

namespace longhaul::planner {

namespace {

bool StartsWithAny(std::string_view text, std::initializer_list<std::string_view> starts) {
  return std::any_of(starts.begin(), starts.end(),
                     [&](std::string_view start) { return text.starts_with(start); });
}

// Containers of Megatron Bridge are named by year and month; the same configuration became 22 % a
// year faster (fit over 25.09 to 26.08). 1 at 26.02, and for releases named otherwise.
double BridgeTrend(std::string_view release) {
  const auto digit = [&](size_t i) { return release[i] >= '0' && release[i] <= '9'; };
  if (release.starts_with("v")) release.remove_prefix(1);
  if (release.size() < 5 || release[2] != '.') return 1;
  for (const size_t i : {0u, 1u, 3u, 4u}) {
    if (!digit(i)) return 1;
  }
  const auto two = [&](size_t i) { return 10 * (release[i] - '0') + (release[i + 1] - '0'); };
  const double years = two(0) + two(3) / 12.0 - (26 + 2 / 12.0);
  return std::exp(-0.22 * std::clamp(years, -1.0, 1.0));
}

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

// PyTorch's sharded data parallelism and what is built on it.
SoftwareStack ShardedStack(std::string_view framework) {
  SoftwareStack stack;
  if (Has(framework, {"foundry", "composer"})) {
    stack.attention = AttentionKernels::kFirst;
    stack.shard_hidden = 0.64;
    stack.shard_bandwidth_share = 0.345;
  } else if (Has(framework, {"titan"})) {
    stack.attention = AttentionKernels::kSecond;
  } else if (Has(framework, {"maxtext"})) {
    stack.compute_factor = 0.9;  // one row
  } else {
    stack.attention = AttentionKernels::kSecond;
    stack.shard_hidden = 0.7;
  }
  return stack;
}

}  // namespace

SoftwareStack StackFor(std::string_view framework, std::string_view release) {
  const bool early = StartsWithAny(release, {"v1", "v2.", "v3", "2019", "2020", "2021", "2022"});
  const bool deepspeed = Has(framework, {"deepspeed"});
  if (early && (deepspeed || framework == "megatron-lm")) return EarlyStack(deepspeed, release);
  if (Has(framework, {"foundry", "composer", "titan", "maxtext", "fsdp", "accelerate", "lightning",
                      "torchtune", "axolotl", "levanter", "axlearn"})) {
    return ShardedStack(framework);
  }
  SoftwareStack stack;
  if (deepspeed) {
    stack.attention = AttentionKernels::kSecond;
    stack.splits_sends = false;
    stack.overlaps_sends = false;
    stack.shard_bandwidth_share = 0.35;
    return stack;
  }
  if (Has(framework, {"hai-llm", "deepseek"})) {
    // Its report (arXiv 2412.19437, section 3.2) hides all experts' traffic under the other
    // direction's compute, for 20 of 132 units; DeepGEMM runs all experts as one kernel. No row.
    stack.expert_hidden_across = 0.9;
    stack.overlap_tax = 20.0 / 132;
    stack.grouped_factor = 1.6;
    stack.permute_share = 2.6;
    return stack;
  }
  const bool bridge = Has(framework, {"bridge"});
  const bool nemo = Has(framework, {"nemo"});
  if (bridge || nemo) stack.expert_hidden_across = 0.17;
  // Dispatch kernels of 2025 (HybridEP, DeepEP) permute while they send; Megatron-Core's default
  // does not.
  stack.permute_share = framework == "megatron-core" || nemo ? 1 : 2.6;
  if (framework == "megatron-core") stack.compute_factor = 1.045;
  if (nemo) {
    stack.compute_factor = 0.986;
    stack.experts_over_data = StartsWithAny(release, {"v24", "24", "v25.02", "25.02", "v25.04"});
  }
  if (bridge) {
    stack.compute_factor = 1.015 * BridgeTrend(release);
  }
  return stack;
}

SoftwareStack StackOf(const spec::Software& software) {
  SoftwareStack stack = StackFor(software.framework, software.release);
  stack.compute_factor *= software.compute_factor;
  return stack;
}

}  // namespace longhaul::planner
