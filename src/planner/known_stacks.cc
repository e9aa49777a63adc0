#include "planner/known_stacks.h"

#include <algorithm>
#include <array>
#include <initializer_list>
#include <vector>

#include "base/text.h"
#include "planner/framework.h"
#include "planner/time/software_stack.h"

namespace longhaul::planner {
namespace {

constexpr std::string_view kNoRun = "no published run: the constants of its family and its report";

constexpr auto kStacks = std::to_array<KnownStack>({
    {"deepspeed", "DeepSpeed's engine with ZeRO", kNoRun},
    {"fsdp", "PyTorch's fully sharded data parallelism", kNoRun},
    {"hai-llm",
     "DeepSeek's own stack: DualPipe, DeepEP, DeepGEMM; all exchange of experts' tokens overlapped",
     kNoRun},
    {"llm-foundry", "MosaicML's LLM Foundry on PyTorch FSDP",
     "85 steps of its benchmarks on A100 and H100"},
    {"maxtext", "MaxText (JAX)", "5 steps of NVIDIA's DGX Cloud benchmarks on H100"},
    {"megatron-bridge",
     "Megatron Bridge on Megatron-Core; separate factors for containers 25.09 to 26.08",
     "61 steps of its performance summaries on H100 to GB300"},
    {"megatron-core", "Megatron-LM on Megatron-Core: what plan assumes without --stack",
     "9 steps of r0.8.0 on H100, 24 of r0.14 on B200"},
    {"megatron-deepspeed", "Megatron-DeepSpeed; releases 2021 and 2022 lack flash attention",
     "12 steps of BLOOM-176B on A100"},
    {"megatron-lm", "Megatron-LM; releases v2.x, 2021 and 2022 lack flash attention",
     "31 steps of SC 2021 and Korthikanti et al. 2022 on A100"},
    {"meta", "Meta's stack of Llama 3", "3 steps on 8,192 and 16,384 H100"},
    {"nemo", "NVIDIA NeMo on Megatron-Core; separate factors for containers 24.03 to 25.07",
     "71 steps of NVIDIA's benchmarks on H100 to GB200"},
    {"nemo-automodel", "NVIDIA NeMo AutoModel on PyTorch FSDP and DeepEP", kNoRun},
    {"paxml", "Paxml (JAX)", "6 steps of NVIDIA's DGX Cloud benchmarks on H100"},
    {"primus", "AMD's Primus on Megatron-Core", "4 steps on MI325X and MI355X"},
    {"torchtitan", "torchtitan on PyTorch FSDP", "10 steps on H100"},
});

}  // namespace

std::span<const KnownStack> KnownStacks() { return kStacks; }

Result<spec::Software> ParseStackName(std::string_view text) {
  const size_t colon = text.find(':');
  const std::string_view name = text.substr(0, colon);
  const std::string_view release =
      colon == std::string_view::npos ? std::string_view() : text.substr(colon + 1);
  std::vector<std::string_view> names;
  for (const KnownStack& stack : kStacks) names.push_back(stack.name);
  if (std::find(names.begin(), names.end(), name) == names.end()) {
    const auto nearest = Nearest(name, names);
    return NotFound("no software stack named '" + Printable(name, 60) + "'" +
                    (nearest ? ", did you mean '" + std::string(*nearest) + "'?" : "") +
                    " (--stack list shows all)");
  }
  if (release.size() > 40 || (colon != std::string_view::npos && release.empty())) {
    return InvalidArgument("'" + Printable(text, 60) +
                           "' has no release of 1 to 40 characters after the colon, as in "
                           "megatron-bridge:26.06");
  }
  return UsualSoftware(name, release);
}

spec::Software UsualSoftware(std::string_view framework, std::string_view release,
                             std::optional<bool> compiled) {
  spec::Software software;
  software.framework = framework;
  software.release = release;
  const Family family = FamilyOf(software);
  const bool modern = family == Family::kMegatron;
  const bool recipes = ContainsAny(framework, {"nemo", "bridge"});
  software.flash_attention = family != Family::kOldMegatron && family != Family::kDeepSpeed;
  software.compiled = compiled.value_or(ContainsAny(framework, {"titan", "maxtext"}));
  // Megatron's switch is off by default; NeMo's recipes turn it on. torchtitan's loss is PyTorch's
  // own on an fp32 copy of the logits, compiled into one kernel since 2025.
  software.loss_fusion = recipes || ContainsAny(framework, {"foundry", "maxtext", "hai-llm"}) ||
                         (software.compiled && CompilesLoss(software));
  software.gradient_accumulation_fusion = modern || family == Family::kOldMegatron;
  // Off in Megatron-LM's own arguments; recipes and benchmarks built on its core turn them on.
  const bool overlaps = (modern && framework != "megatron-lm") || family == Family::kShardedData;
  software.overlap_gradient = overlaps;
  software.overlap_parameter = overlaps;
  software.overlap_tensor = recipes;
  // NeMo's and Megatron Bridge's performance recipes reduce in bf16 (grad_reduce_in_fp32 off).
  software.gradient_bytes = recipes ? 2 : 4;
  // NeMo AutoModel trains the bf16 weights themselves with PyTorch's Adam.
  software.moment_bytes = ContainsAny(framework, {"automodel"}) ? 2 : 4;
  return software;
}

}  // namespace longhaul::planner
