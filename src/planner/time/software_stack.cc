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

}  // namespace

SoftwareStack StackFor(std::string_view framework, std::string_view release) {
  SoftwareStack stack;
  const bool deepspeed = framework == "megatron-deepspeed" || framework == "deepspeed";
  const bool old_megatron = framework == "megatron-lm" &&
                            StartsWithAny(release, {"v1", "v2", "v3", "2019", "2020", "2021"});
  if (deepspeed || framework == "megatron-lm") {
    stack.overlaps_sends = false;
    stack.attention = AttentionKernels::kFirst;
    stack.shard_bandwidth_share = 0.11;  // DeepSpeed's ZeRO-3: one small gather a parameter
    if (deepspeed || old_megatron) stack.tensor_backward_hidden = 0;
    stack.splits_sends = !deepspeed;
  }
  if (framework == "llm-foundry") {
    stack.attention = AttentionKernels::kFirst;
    stack.shard_hidden = 0.592;
    stack.shard_bandwidth_share = 0.355;
  }
  if (framework == "torchtitan") stack.attention = AttentionKernels::kSecond;
  if (framework == "nemo" || framework == "megatron-bridge") stack.expert_hidden_across = 0.221;
  // HybridEP and DeepEP permute while they send.
  if (framework == "megatron-bridge") stack.permute_share = 2.06;
  if (framework == "nemo") {
    stack.experts_over_data = StartsWithAny(release, {"v24", "24", "v25.02", "25.02", "v25.04"});
  }
  if (framework == "nemo") stack.compute_factor = 0.981;
  if (framework == "megatron-core") stack.compute_factor = 1.033;
  if (framework == "megatron-lm") stack.compute_factor = 0.958;
  if (framework == "megatron-bridge") stack.compute_factor = 1.015 * BridgeTrend(release);
  return stack;
}

}  // namespace longhaul::planner
